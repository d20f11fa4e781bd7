"""Sets of images in the official formats, and what is said of damaged ones."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from provenet.data import cifar, idx
from provenet.data.images import ImageSet, load_images

RNG = np.random.default_rng(0)


def as_idx(array: Any) -> bytes:
    array = np.asarray(array, dtype=np.uint8)
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def mnist(tmp_path: Path) -> Any:
    """A small set of its kind: the folder and its arrays."""
    arrays = [RNG.integers(0, 256, (6, 4, 5)), np.arange(6), RNG.integers(0, 256, (3, 4, 5)), np.arange(3)]
    for number, (part, array) in enumerate(zip(idx.PARTS, arrays, strict=True)):
        content = as_idx(array)
        packed = number % 2 == 0
        (tmp_path / (part + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return tmp_path, arrays


def test_idx(mnist: Any) -> None:
    folder, (X, y, X_test, y_test) = mnist
    images = load_images(folder)
    assert np.array_equal(images.training[0], X[:, None])
    assert np.array_equal(images.training[1], y)
    assert np.array_equal(images.test[0], X_test[:, None])
    assert np.array_equal(images.test[1], y_test)
    assert images.name == "idx files of no official set"


def test_official_sets_are_known_by_their_checksums() -> None:
    for name, digests in idx.OFFICIAL.items():
        assert idx.official_name(digests) == name
        assert idx.official_name((*digests[:3], "0" * 64)) is None


@pytest.mark.parametrize(
    ("part", "change", "match"),
    [
        (0, lambda c: c[:-3], "damaged gzip"),
        (0, lambda c: gzip.compress(gzip.decompress(c)[:-1]), "says 6 × 4 × 5 bytes and holds 119"),
        (1, lambda c: b"PNG" + c, "no idx file of bytes"),
        (1, lambda c: c[:6], "ends within its sizes"),
        (1, lambda _: as_idx(np.arange(5)), "5 labels of 6 images"),
        (1, lambda _: as_idx(np.zeros((2, 2))), "no labels"),
    ],
)
def test_damaged_idx(mnist: Any, part: int, change: Any, match: str) -> None:
    path = idx.find(mnist[0], idx.PARTS[part])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=match):
        load_images(mnist[0])


def test_a_missing_part_is_named(mnist: Any) -> None:
    idx.find(mnist[0], idx.PARTS[1]).unlink()
    with pytest.raises(FileNotFoundError, match=r"train-labels-idx1-ubyte: it is missing.*fashion-mnist"):
        load_images(mnist[0])
    with pytest.raises(FileNotFoundError, match="there is nothing"):
        load_images(mnist[0] / "nowhere")


@pytest.mark.parametrize(("kind", "classes"), [(cifar.TEN, 10), (cifar.HUNDRED, 100)])
def test_cifar(tmp_path: Path, kind: Any, classes: int) -> None:
    training, test, labels = kind
    images = {}
    for name in (*training, *test):
        X, y = (
            RNG.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8),
            RNG.integers(0, classes, (2, labels), dtype=np.uint8),
        )
        images[name] = X, y[:, -1]
        (tmp_path / name).write_bytes(np.concatenate([y, X.reshape(2, -1)], axis=1).tobytes())
    found = load_images(tmp_path)
    assert found.name == f"CIFAR-{classes} files of no official set"
    digests = [hashlib.sha1((tmp_path / name).read_bytes()).hexdigest() for name in (*training, *test)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cifar.OFFICIAL, "CIFAR-N", tuple(digests))
        assert load_images(tmp_path).name == "CIFAR-N"
    assert np.array_equal(found.training[0], np.concatenate([images[name][0] for name in training]))
    assert np.array_equal(found.training[1], np.concatenate([images[name][1] for name in training]))
    assert np.array_equal(found.test[0], images[test[0]][0])
    (tmp_path / test[0]).write_bytes(b"12345")
    with pytest.raises(ValueError, match="no whole number of images"):
        load_images(tmp_path)
    (tmp_path / test[0]).unlink()
    with pytest.raises(FileNotFoundError, match=r"it is missing.*kriz/cifar.html"):
        load_images(tmp_path)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ValueError, match="pickles, which can run code and are not opened; take the binary"):
        load_images(tmp_path)


def test_npz(tmp_path: Path) -> None:
    X, y = RNG.normal(size=(4, 1, 3, 3)), np.arange(4)
    np.savez(tmp_path / "all.npz", X=X, y=y, X_test=X[:2], y_test=y[:2])
    images = load_images(tmp_path / "all.npz")
    assert np.array_equal(images.training[0], X)
    assert np.array_equal(images.test[1], y[:2])
    np.savez(tmp_path / "some.npz", X=X)
    with pytest.raises(ValueError, match="labels are missing"):
        load_images(tmp_path / "some.npz")
    np.savez(tmp_path / "half.npz", X=X, y=y, X_test=X)
    with pytest.raises(ValueError, match="y_test is missing; a test set is both"):
        load_images(tmp_path / "half.npz")
    np.savez(tmp_path / "objects.npz", X=np.array([{}]), y=y)
    with pytest.raises(ValueError, match="holds Python objects"):
        load_images(tmp_path / "objects.npz")


def test_a_test_set_of_another_kind() -> None:
    X, y = RNG.normal(size=(4, 1, 3, 3)), np.arange(4)
    ImageSet((X, y), None, "").check_test()
    ImageSet((X, y), (X, y), "").check_test()
    with pytest.raises(ValueError, match=r"X_test: its samples have shape \(3, 3, 3\), those of X \(1, 3, 3\)"):
        ImageSet((X, y), (X.repeat(3, axis=1), y), "").check_test()
    with pytest.raises(ValueError, match="y_test: 4 samples need as many labels, got 3"):
        ImageSet((X, y), (X, y[:3]), "").check_test()


def picture(path: Path, array: Any) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(path)


def test_pictures(tmp_path: Path) -> None:
    grey = RNG.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    for part, count in (("train", 3), ("test", 1)):
        for number in range(count):
            picture(tmp_path / part / "ab"[number % 2] / f"{number}.png", grey[number])
    images = load_images(tmp_path)
    assert images.training[1].tolist() == ["a", "a", "b"]
    assert np.array_equal(images.training[0][:, 0], grey[[0, 2, 1]])
    assert len(images.test[1]) == 1
    picture(tmp_path / "train" / "b" / "9.png", np.zeros((4, 5, 3)))
    with pytest.raises(ValueError, match=r"9.png: it is in colours, but .* is greyscale"):
        load_images(tmp_path)
    picture(tmp_path / "train" / "b" / "9.png", np.zeros((4, 6)))
    with pytest.raises(ValueError, match=r"9.png: it has 4 × 6 pixels, but .* has 4 × 5; bring all to one size"):
        load_images(tmp_path)
    (tmp_path / "train" / "b" / "9.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="no picture that can be read"):
        load_images(tmp_path)


def test_an_empty_folder_says_where_to_get_sets(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no idx files.*cs\.toronto\.edu"):
        load_images(tmp_path)
