"""Sets of images on disk: idx files, CIFAR's batches, NPZ files, folders of pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data import cifar, idx
from provenet.data.arrays import read_arrays
from provenet.data.sets import WHERE

_PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}

Arrays = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class ImageSet:
    """training and test (X, y): X (n, channels, height, width) in bytes, or any samples of an NPZ file; test may be
    None.  name: of the official set, where its checksums agree; else of the format."""

    training: Arrays
    test: Arrays | None
    name: str

    def check_test(self) -> None:
        """ValueError where the test samples are not of the kind of the others: told before the work, not after it."""
        if self.test is None:
            return
        (X, _), (X_test, y_test) = self.training, self.test
        if X_test.shape[1:] != X.shape[1:]:
            raise ValueError(f"X_test: its samples have shape {X_test.shape[1:]}, those of X {X.shape[1:]}.")
        if len(X_test) != len(y_test):
            raise ValueError(f"y_test: {len(X_test)} samples need as many labels, got {len(y_test)}.")


def load_images(path: str | Path) -> ImageSet:
    """The set in a folder or NPZ file.

    A folder holds idx files (``train-images-idx3-ubyte``, …, gzipped or not), CIFAR's binary batches, or pictures in a
    folder for each class, or those in ``train`` and ``test``.  An NPZ file holds X and y, and may hold X_test and
    y_test.  Nothing is unpickled.  ValueError or OSError says what is missing or damaged, and where to get it.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is nothing. {WHERE}.")
    if path.is_file():
        return _npz(path)
    if any(idx.find(path, part) for part in idx.PARTS):
        return _idx(path)
    kind = cifar.batches_in(path)
    if kind is not None:
        training, test, labels = kind
        rows, judged = (cifar.read_batches(path, names, labels) for names in (training, test))
        name = cifar.official_name(path, (*training, *test))
        return ImageSet(rows, judged, name or f"CIFAR-{10 if labels == 1 else 100} files of no official set")
    if cifar.is_pickled(path):
        raise ValueError(
            f"{path}: these are CIFAR's Python batches, pickles, which can run code and are not opened; take the "
            "binary version, from www.cs.toronto.edu/~kriz/cifar.html."
        )
    return _pictures(path)


def _idx(folder: Path) -> ImageSet:
    arrays, digests = [], []
    for part in idx.PARTS:
        path = idx.find(folder, part)
        if path is None:
            raise FileNotFoundError(f"{folder / part}: it is missing, packed or not, so the set is not whole. {WHERE}.")
        array, digest = idx.read_idx(path)
        if array.ndim != (3 if "images" in part else 1):
            raise ValueError(f"{path}: it holds an array of shape {array.shape}, no {part.split('-')[1]}.")
        arrays.append(array)
        digests.append(digest)
    X, y, X_test, y_test = arrays
    for images, labels, part in ((X, y, idx.PARTS[1]), (X_test, y_test, idx.PARTS[3])):
        if len(images) != len(labels):
            raise ValueError(f"{folder / part}: {len(labels)} labels of {len(images)} images.")
    name = idx.official_name(tuple(digests))
    as_images = ((X[:, None], y.astype(np.int64)), (X_test[:, None], y_test.astype(np.int64)))
    return ImageSet(*as_images, name or "idx files of no official set")


def _npz(path: Path) -> ImageSet:
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path}: images are read from an NPZ file, or from a folder. {WHERE}.")
    held = read_arrays(path)
    if "y" not in held:
        raise ValueError(f"{path}: labels are missing; an NPZ file holds X and y, and may hold X_test and y_test.")
    if "X" not in held:
        raise ValueError(f"{path}: X is missing; it holds {', '.join(held)}.")
    if ("X_test" in held) != ("y_test" in held):
        missing = "X_test" if "y_test" in held else "y_test"
        raise ValueError(f"{path}: {missing} is missing; a test set is both, X_test and y_test.")
    test = (held["X_test"], held["y_test"]) if "X_test" in held else None
    return ImageSet((held["X"], held["y"]), test, "NPZ file")


def _pictures(folder: Path) -> ImageSet:
    if (folder / "train").is_dir():
        test = _classes(folder / "test") if (folder / "test").is_dir() else None
        return ImageSet(_classes(folder / "train"), test, "pictures")
    return ImageSet(_classes(folder), None, "pictures")


def pictures_in(folder: Path) -> list[tuple[Path, str]]:
    """Pictures in folders named by class, with the class of each."""
    return [
        (picture, group.name)
        for group in sorted(folder.iterdir())
        if group.is_dir()
        for picture in sorted(group.iterdir())
        if picture.suffix.lower() in _PICTURES
    ]


def _classes(folder: Path) -> Arrays:
    """Pictures of every class, (n, channels, height, width); labels are the names of their folders."""
    found = pictures_in(folder)
    if not found:
        raise ValueError(
            f"{folder}: it holds no idx files, no CIFAR batches, and no pictures in folders named by class. {WHERE}."
        )
    images = [read_picture(path) for path, _ in found]
    _check_alike([path for path, _ in found], images)
    return np.stack(images), np.array([label for _, label in found])


def read_picture(path: Path) -> NDArray[np.uint8]:
    """(channels, height, width): one channel of greyscale, three of colours."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            grey = picture.mode in ("1", "L", "I;16", "LA")
            array = np.asarray(picture.convert("L" if grey else "RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"{path}: it is no picture that can be read ({error}).") from None
    return array[None] if grey else array.transpose(2, 0, 1)


def _check_alike(paths: Iterable[Path], images: list[NDArray[np.uint8]]) -> None:
    """All of one size, and all grey or all in colours."""
    shape, first = images[0].shape, None
    for path, image in zip(paths, images, strict=True):
        first = first or path
        if image.shape[0] != shape[0]:
            kinds = {1: "greyscale", 3: "in colours"}
            raise ValueError(
                f"{path}: it is {kinds[image.shape[0]]}, but {first} is {kinds[shape[0]]}; convert all to one kind."
            )
        if image.shape != shape:
            sizes = [" × ".join(map(str, each[1:])) for each in (image.shape, shape)]
            raise ValueError(f"{path}: it has {sizes[0]} pixels, but {first} has {sizes[1]}; bring all to one size.")
