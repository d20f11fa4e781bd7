"""Heads of a frozen backbone: fitted, compared, kept, put behind the backbone again."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import provenet as pn
from provenet.cli.commands import app
from provenet.heads import fitting
from provenet.heads.kinds import HEADS, head_names
from provenet.io import export_onnx
from provenet.nn.backbone import weighed


class Tiny(nn.Module):
    """(b, 1, 4, 4) → maps (b, 6, 2, 2)."""

    def __init__(self, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(1, 6, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def samples(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images whose brightest corner is their class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    X = rng.random((n, 1, 4, 4)).astype(np.float32)
    for i, corner in enumerate(y):
        X[i, 0, 2 * (corner // 2) : 2 * (corner // 2) + 2, 2 * (corner % 2) : 2 * (corner % 2) + 2] += 1
    return X, y


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grids")
    X, y = samples(90, 0)
    pn.embed(Tiny(), X, folder, y=y, pca=4)
    X, y = samples(30, 1)
    pn.embed(Tiny(), X, folder / "test", y=y, like=folder)
    return folder


def test_the_best_head_is_kept_and_composes_with_its_backbone(embedded: Path, tmp_path: Path) -> None:
    heads = ("linear", "mixer-linear", "bfno-linear")
    found = pn.heads.compare(
        embedded, heads=heads, test=embedded / "test", betas=[0.1, 0.01], out=tmp_path / "m", n_gates=4
    )
    assert [row.head for row in found] == list(heads)
    assert all(row.relative_gap is not None and row.relative_gap <= 1e-2 for row in found)
    assert found.best.head == "mixer-linear"  # means over tokens do not know corners
    assert "mixer-linear" in str(found)
    images, labels = samples(30, 1)
    module = pn.nn.with_backbone(Tiny(), pn.heads.load(tmp_path / "m"))
    said = module(torch.as_tensor(images))
    model = pn.load(tmp_path / "m")
    tokens = pn.load_embedding(embedded / "test").X
    np.testing.assert_allclose(said.numpy(force=True), model.decision_function(tokens), atol=1e-4)
    right = float((said.argmax(1).numpy() == labels).mean())
    assert right == pytest.approx(found.best.top1)
    assert pn.heads.score(tmp_path / "m", embedded / "test") == {"top1": pytest.approx(right)}  # of four, five are all
    path = export_onnx(model.network_, tmp_path / "head.onnx", sample_shape=model.sample_shape_)
    assert path.stat().st_size > 0
    module.train()
    assert not module.backbone.training
    assert not any(p.requires_grad for p in module.backbone.parameters())


@pytest.mark.parametrize("name", ["mixer-linear", "places-gated"])
def test_a_path_poses_its_problem_once_and_finds_what_a_fit_finds(
    embedded: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posed: list[object] = []
    formulate = pn.ProvenClassifier._formulate
    monkeypatch.setattr(
        pn.ProvenClassifier, "_formulate", lambda self, *given: posed.append(self) or formulate(self, *given)
    )
    settings = {"heads": [name], "n_gates": 4, "tol": 1e-4, "validation": 0.2}
    (row,) = pn.heads.compare(embedded, betas=[0.3, 0.1, 0.03], **settings)
    assert len(posed) == 2  # the path, and all samples
    assert len(row.path) == 3
    assert row.beta is not None
    (alone,) = pn.heads.compare(embedded, betas=[row.beta], **settings)
    assert row.beta_sum == pytest.approx(alone.beta_sum)
    assert row.primal == pytest.approx(alone.primal, rel=3e-4)
    assert (row.validation or 0) == pytest.approx(alone.validation, abs=0.06)


def test_a_comparison_goes_on_after_the_last_head_that_was_done(embedded: Path, tmp_path: Path) -> None:
    settings = {"betas": [0.1], "out": tmp_path / "m", "test": embedded / "test"}

    def stop(row: pn.heads.Row) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pn.heads.compare(embedded, heads=("linear", "mixer-linear"), progress=stop, **settings)
    first = json.loads((tmp_path / "m" / ".heads" / "heads.json").read_text())["rows"]
    assert [row["head"] for row in first] == ["linear"]
    found = pn.heads.compare(embedded, heads=("linear", "mixer-linear"), **settings)
    assert found.rows[0].seconds == first[0]["seconds"]
    with pytest.raises(FileExistsError, match="another way"):
        pn.heads.compare(embedded, heads=("linear",), betas=[0.2], out=tmp_path / "m")


def test_another_backbone_than_the_heads_is_refused(embedded: Path, tmp_path: Path) -> None:
    pn.heads.compare(embedded, heads=["linear"], betas=[0.1], out=tmp_path / "m")
    with pytest.raises(ValueError, match="trained on tokens of 'Tiny'"):
        pn.nn.with_backbone(Tiny(1), pn.heads.load(tmp_path / "m"))
    with pytest.raises(ValueError, match="no weights to compare"):
        pn.nn.with_backbone(lambda x: x, pn.heads.load(tmp_path / "m"))
    X, y = samples(12, 2)
    foreign = pn.embed(Tiny(1), X, tmp_path / "foreign", y=y, pca=4)
    with pytest.raises(ValueError, match="reads those of 'Tiny'"):
        pn.heads.score(tmp_path / "m", foreign)
    with pytest.raises(ValueError, match="another backbone"):
        pn.heads.compare(embedded, heads=["linear"], test=foreign)
    other = pn.embed(Tiny(), X, tmp_path / "other", y=y, pca=4)
    with pytest.raises(ValueError, match="in another way"):
        pn.heads.score(tmp_path / "m", other)
    (tmp_path / "m" / "reduction.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="not the PCA"):
        pn.heads.load(tmp_path / "m")


def test_a_model_that_is_no_head_is_refused(tmp_path: Path) -> None:
    X, y = samples(30, 0)
    pn.save(pn.ProvenClassifier(activation="linear", beta=1.0).fit(X.reshape(30, -1), y), tmp_path / "m")
    with pytest.raises(ValueError, match="no head of a backbone"):
        pn.heads.load(tmp_path / "m")


@pytest.mark.parametrize("name", [name for name in HEADS if name.endswith("gated")])
def test_every_gated_head_can_be_fitted(embedded: Path, name: str) -> None:
    found = pn.heads.compare(embedded, heads=[name], betas=[0.3], n_gates=3, tol=0.1, max_seconds=5)
    assert found.best.relative_gap is not None
    assert found.best.validation is not None


def test_attention_has_no_more_gates_than_in_the_paper(embedded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = fitting.ProvenClassifier

    def made(**settings: Any) -> pn.ProvenClassifier:
        seen.append(settings["n_gates"])
        return plain(**settings)

    monkeypatch.setattr(fitting, "ProvenClassifier", made)
    pn.heads.compare(embedded, heads=["attention-gated", "mlp-gated"], betas=[0.3], n_gates=7, tol=0.1, max_seconds=5)
    assert set(seen) == {5, 7}
    assert sorted(seen) == seen


def test_a_limit_is_of_all_heads_together(embedded, tmp_path):
    out = tmp_path / "model"
    asked = {"heads": ["linear", "mixer-linear", "fnet-linear"], "betas": [0.3], "n_gates": 3, "tol": 0.1, "out": out}
    found = pn.heads.compare(embedded, **asked, max_seconds=1e-3)
    assert found.rows[0].validation is not None
    assert all(row.validation is None and "no time" in row.why for row in found.rows[1:])
    again = pn.heads.compare(embedded, **asked, max_seconds=1e-3)  # goes on with the next
    assert again.rows[0].cpu == found.rows[0].cpu
    assert again.rows[1].validation is not None


def test_texts_of_different_lengths(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 60)
    mask = np.arange(4) < lengths[:, None]
    tokens = (rng.standard_normal((60, 4, 3)).astype(np.float32)) * mask[..., None]
    y = (tokens.sum(1) / lengths[:, None])[:, 0] > 0

    def backbone(texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [int(text) for text in texts]
        return torch.as_tensor(tokens[rows]), torch.as_tensor(mask[rows])

    pn.embed(backbone, [str(i) for i in range(60)], tmp_path / "e", y=y)
    found = pn.heads.compare(
        tmp_path / "e", heads=["linear", "attention-linear"], betas=[0.01], out=tmp_path / "m", test=tmp_path / "e"
    )
    assert found.best.head == "linear"
    assert (found.best.top1 or 0) > 0.9
    module = pn.nn.with_backbone(backbone, pn.heads.load(tmp_path / "m"))
    said = module([str(i) for i in range(60)]).argmax(1).numpy()
    assert (said == y).mean() == pytest.approx(found.best.top1)
    attention = pn.nn.with_backbone(backbone, pn.heads.load(tmp_path / "m" / ".heads" / "attention-linear"))
    right = (attention([str(i) for i in range(60)]).argmax(1).numpy() == y).mean()
    assert right == pytest.approx(found.rows[1].top1)


def test_neurons_that_read_one_token_have_a_bias(tmp_path: Path) -> None:
    """A class by how many tokens are beyond a threshold: their mean does not tell, nor do gates through the origin."""
    rng = np.random.default_rng(0)
    tokens = rng.uniform(-1, 1, (200, 6, 1)).astype(np.float32)
    y = (tokens[..., 0] > 0.5).sum(1) > 1
    pn.embed(lambda images: images[:, 0], tokens[:, None], tmp_path / "e", y=y, name="itself")
    found = pn.heads.compare(tmp_path / "e", heads=["linear", "mlp-gated"], betas=[0.03, 0.003], validation=0.4)
    linear, gated = (row.validation or 0.0 for row in found)
    assert gated > linear + 0.03


def test_features_that_a_backbone_leaves_dead_are_no_news(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).standard_normal((30, 1, 4, 3)).astype(np.float32)
    tokens[..., 2] *= 1e-30
    pn.embed(lambda images: images[:, 0], tokens, tmp_path / "e", y=tokens[:, 0, 0, 0] > 0, name="itself")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pn.heads.compare(tmp_path / "e", heads=["linear"], betas=[0.1])


def test_places_are_told_apart_with_a_mask_too(tmp_path: Path) -> None:
    """A class by how far the first token is from the origin, whatever the others are: a mean is lost.
    Behind its backbone the head says what it said in the comparison."""
    rng = np.random.default_rng(0)
    mask = np.arange(4) < rng.integers(2, 5, 160)[:, None]
    tokens = (rng.uniform(-1, 1, (160, 4, 1)) * mask[..., None]).astype(np.float32)
    y = np.abs(tokens[:, 0, 0]) > 0.5

    def backbone(texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [int(text) for text in texts]
        return torch.as_tensor(tokens[rows]), torch.as_tensor(mask[rows])

    texts = [str(i) for i in range(160)]
    pn.embed(backbone, texts, tmp_path / "e", y=y)
    heads = ["mlp-gated", "places-gated", "mixer-linear", "mixer-gated", "fisher-linear", "fisher-gated"]
    found = pn.heads.compare(
        tmp_path / "e", heads=heads, betas=[0.03], n_gates=8, tol=3e-2, out=tmp_path / "m", test=tmp_path / "e"
    )
    right = {row.head: row.top1 or 0 for row in found}
    assert min(right["places-gated"], right["mixer-gated"]) > 0.9 > max(right["mlp-gated"], right["mixer-linear"])
    for row in found:
        module = pn.nn.with_backbone(backbone, pn.heads.load(tmp_path / "m" / ".heads" / row.head))
        assert (module(texts).argmax(1).numpy() == y).mean() == pytest.approx(row.top1)
    assert pn.heads.score(tmp_path / "m", tmp_path / "e")["top1"] == pytest.approx(found.best.top1)


def test_a_head_too_large_for_the_memory_leaves_the_others(embedded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = import_module("provenet.heads.comparison")
    fit = compare.fit_head

    def short_of_memory(name: str, *given: object) -> object:
        if name == "places-gated":
            raise MemoryError("places-gated needs 40 GiB")
        return fit(name, *given)

    monkeypatch.setattr(compare, "fit_head", short_of_memory)
    found = pn.heads.compare(embedded, heads=["places-gated", "linear"], betas=[0.1])
    assert found.best.head == "linear"
    assert "40 GiB" in str(found)


def test_weighed_tokens_have_the_mean_of_those_that_are_there() -> None:
    x, mask = np.ones((2, 4, 1), dtype=np.float32), np.array([[1, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)
    assert weighed(x, mask).mean(1).ravel().tolist() == [1.0, 0.0]
    assert torch.equal(weighed(torch.as_tensor(x), torch.as_tensor(mask)), torch.as_tensor(weighed(x, mask)))


def test_names_of_heads() -> None:
    assert len(HEADS) == 18
    assert head_names("all") == tuple(HEADS)
    assert head_names("linear, linear,fnet-gated") == ("linear", "fnet-gated")
    with pytest.raises(ValueError, match="softmax-attention"):
        head_names(["softmax-attention"])
    with pytest.raises(ValueError, match="none"):
        head_names([])


def test_validation_by_other_samples(embedded: Path, tmp_path: Path) -> None:
    settings = {"heads": ["linear"], "betas": [0.1], "out": tmp_path / "m"}
    found = pn.heads.compare(embedded, validation=embedded / "test", **settings)
    assert found.best.validation is not None
    assert pn.load(tmp_path / "m").saved_.data["samples"][0] == 120  # both are trained on in the end
    with pytest.raises(FileExistsError, match="another way"):
        pn.heads.compare(embedded, validation=0.3, **settings)


def test_what_cannot_be_compared(embedded: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        pn.heads.compare(embedded, validation=2.0)
    pn.embed(Tiny(), samples(5, 0)[0], tmp_path / "bare")
    with pytest.raises(ValueError, match="no labels"):
        pn.heads.compare(tmp_path / "bare")


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = samples(60, 0)
    other, z = samples(20, 1)
    np.savez(tmp_path / "set.npz", X=X, y=y, X_test=other, y_test=z)
    monkeypatch.setattr("provenet.embeddings.backbones.load_backbone", lambda name, **_: Tiny())
    run = CliRunner().invoke
    grids, model = str(tmp_path / "grids"), str(tmp_path / "m")
    made = run(app, ["embed", str(tmp_path / "set.npz"), "--backbone", "tiny", "-o", grids, "--json"])
    assert made.exit_code == 0, made.output
    parts = json.loads(made.stdout)["parts"]
    assert [part["shape"] for part in parts] == [[60, 4, 6], [20, 4, 6]]
    done = run(app, ["head", grids, "-o", model, "--heads", "linear,mixer-linear", "--betas", "2"])
    assert done.exit_code == 0, done.output
    assert "best by validation" in done.stdout
    judged = run(app, ["head", str(tmp_path / "grids" / "test"), "--judge", model, "--json"])
    assert 0.5 < json.loads(judged.stdout)["top1"] <= 1
    graph = run(app, ["export", model, "--out", str(tmp_path / "head.onnx")])
    assert graph.exit_code == 0, graph.output
    wrong = run(app, ["head", grids, "-o", model, "--heads", "nonsense"])
    assert wrong.exit_code == 1
    assert "nonsense" in wrong.stderr
    lost = run(app, ["head", str(tmp_path / "nowhere"), "-o", model])
    assert "embed first" in lost.stderr
