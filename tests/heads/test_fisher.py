"""Places pooled by Fisher's discriminant: the matrix is what it says, and heads behind it predict better."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import provenet as pn
from provenet.heads import fisher, kinds
from provenet.heads.fisher import fisher_pool
from provenet.io import export_onnx


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sixteen places share a loud noise, and a quiet signal is added to the third: it is seen best in what that place
    has more than the others.  X (n, 16, 12), y (n,) of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 1, 12)) + 0.5 * rng.standard_normal((n, 16, 12))
    X[:, 2] += 1.2 * np.eye(3, 12)[y]
    return X.astype(np.float32), y


def test_the_pooling_is_a_power_of_the_discriminants_gram_matrix() -> None:
    X, y = drawn(80)
    X[:, 4] *= 0.5
    pool = fisher_pool(X, y, 16)
    x = X.astype(float)
    means = np.stack([x[y == k].mean(0) for k in range(3)])
    rest = x - means[y]
    features = np.square(rest).mean((0, 1))
    within = np.einsum("nsd,ntd,d->st", rest, rest, 1 / features) / (80 * 12)
    gram = np.zeros((16, 16))
    for k in range(3):
        discriminant = np.linalg.solve(within, (means[k] - x.mean(0)) / np.sqrt(features))
        gram += (y == k).mean() * discriminant @ discriminant.T
    np.testing.assert_allclose(
        np.linalg.matrix_power(pool.T @ pool, 2), gram / np.linalg.norm(gram, 2), atol=1e-6
    )  # (C^¼ C^¼)² = C
    np.testing.assert_allclose(fisher_pool(X, y, 2), pool[:2])  # fewer cells: the leading ones
    np.testing.assert_allclose(np.abs(fisher_pool(X * 2.0**-60, y, 16)), np.abs(pool), atol=1e-9)


def test_means_of_all_classes_are_not_held_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 8, 64)).astype(np.float32), np.arange(600) % 300
    tracemalloc.start()
    pool = fisher_pool(X, y, 8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * 8 * 64 * 8 / 2
    monkeypatch.setattr(fisher, "_AT_ONCE", 8 * 64)  # a sample at a time
    again = fisher_pool(X, y, 8)
    np.testing.assert_allclose(again.T @ again, pool.T @ pool, atol=1e-10)


@pytest.mark.parametrize("what", ["dead feature", "empty place", "all the same", "one sample a class"])
def test_what_does_not_vary_is_no_harm(what: str) -> None:
    X, y = drawn(60)
    if what == "dead feature":
        X[..., 2] *= 1e-30
    elif what == "empty place":
        X[:, 5] = 0
    elif what == "all the same":
        X[:] = 1
    else:
        X, y = X[:3], np.arange(3)
    pool = fisher_pool(X, y, 4)
    assert np.isfinite(pool).all()
    assert pool.any()
    assert pool.shape[1] == 16
    assert len(pool) <= 4
    if what == "empty place":
        assert np.abs(pool[:, 5]).max() < 1e-6 < np.abs(pool[:, 2]).max()


def test_the_place_that_tells_is_found_from_few_samples(tmp_path: Path) -> None:
    """Behind its backbone and as an ONNX graph the head says what it said in the comparison, and its proof holds."""
    X, y = drawn(150)
    other, z = drawn(600, 1)

    def itself(images: torch.Tensor) -> torch.Tensor:
        return images[:, 0]

    pn.embed(itself, X[:, None], tmp_path / "e", y=y, name="itself")
    test = pn.embed(itself, other[:, None], tmp_path / "e" / "test", y=z, like=tmp_path / "e", name="itself")
    found = pn.heads.compare(
        tmp_path / "e",
        heads=["fisher-linear", "places-linear", "linear"],
        betas=[0.2, 0.03],
        test=test,
        out=tmp_path / "m",
        tol=1e-3,
    )
    right = {row.head: row.top1 or 0.0 for row in found}
    assert right["fisher-linear"] > max(right["places-linear"] + 0.02, right["linear"] + 0.1)
    assert all((row.relative_gap or 1) <= 1e-3 for row in found)
    folder = tmp_path / "m" / ".heads" / "fisher-linear"
    model = pn.load(folder)
    again = pn.certify(model.network_, X.swapaxes(1, 2), y, loss="softmax", beta=model.beta_)
    assert again.relative_gap == pytest.approx(found.rows[0].relative_gap, abs=1e-5)
    assert again.scope == "linear"
    said = pn.nn.with_backbone(itself, pn.heads.load(folder))(torch.as_tensor(other[:, None]))
    assert (said.argmax(1).numpy() == z).mean() == pytest.approx(right["fisher-linear"])
    graph = export_onnx(model.network_, tmp_path / "head.onnx", sample_shape=model.sample_shape_)
    session = onnxruntime.InferenceSession(graph)
    (logits,) = session.run(None, {session.get_inputs()[0].name: other.swapaxes(1, 2)})
    np.testing.assert_allclose(logits, said.numpy(force=True), atol=1e-4)


def test_samples_that_choose_make_the_pooling_only_when_they_have_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = drawn(80)
    other, z = drawn(60, 1)
    made = [
        pn.embed(lambda x: x[:, 0], x[:, None], tmp_path / name, y=labels, name="itself")
        for name, x, labels in (("e", X, y), ("v", other, z))
    ]
    read: list[int] = []
    monkeypatch.setattr(kinds, "fisher_pool", lambda X, *given: read.append(len(X)) or fisher_pool(X, *given))
    pn.heads.compare(made[0], heads=["fisher-linear"], validation=made[1], betas=[0.1], out=tmp_path / "m")
    assert read == [80, 140]
    whole = fisher_pool(np.concatenate([X, other]), np.concatenate([y, z]), 16)
    np.testing.assert_array_equal(np.array(pn.load(tmp_path / "m").block.pool), whole)
