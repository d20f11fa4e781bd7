"""ZCA whitening: XXᵀ = I where that is possible, and names where it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.data.whitening import Whitening


@pytest.mark.parametrize("demean", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (20, 31)])
def test_whitened_rows_are_orthonormal(demean: bool, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) @ np.diag(rng.uniform(0.01, 10, shape[1])) + 3.0
    white = Whitening.fit(X, demean=demean).apply(X)
    torch.testing.assert_close(white @ white.T, torch.eye(shape[0], dtype=torch.float64), rtol=0, atol=1e-9)


def test_without_demeaning_it_is_the_nearest_matrix_with_orthonormal_rows() -> None:
    """Zero-phase: X·matrix = UVᵀ, the orthogonal factor of the polar decomposition; and the matrix is symmetric."""
    X = np.random.default_rng(1).standard_normal((6, 9))
    whitening = Whitening.fit(X)
    U, _, Vh = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(whitening.apply(X), U @ Vh, atol=1e-12)
    torch.testing.assert_close(whitening.matrix, whitening.matrix.T)


def test_demeaning_alone_would_not_be_spike_free() -> None:
    """Demeaned rows reach I − 11ᵀ/n only; the shift makes up for it, and new data get the same map."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((7, 12)) + 1.0
    whitening = Whitening.fit(X, demean=True)
    centred = (torch.from_numpy(X) - whitening.mean) @ whitening.matrix
    torch.testing.assert_close(centred @ centred.T, torch.eye(7).double() - 1 / 7, rtol=0, atol=1e-12)
    assert float((centred @ whitening.shift).abs().max()) < 1e-12
    new = rng.standard_normal((3, 12))
    affine = whitening.apply(np.zeros((1, 12))) + torch.from_numpy(new) @ whitening.matrix
    torch.testing.assert_close(whitening.apply(new), affine)


def test_what_cannot_be_whitened_is_refused_by_name() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="needs n ≤ d"):
        Whitening.fit(rng.standard_normal((5, 4)))
    X = rng.standard_normal((4, 6))
    for broken in (np.concatenate([X, X[:1]]), np.concatenate([X, np.zeros((1, 6))]), np.zeros((2, 3))):
        with pytest.raises(ValueError, match="linearly independent"):
            Whitening.fit(broken)
    with pytest.raises(ValueError, match="linearly independent"):
        Whitening.fit(X - X.mean(0), demean=True)
    with pytest.raises(ValueError, match="table of samples"):
        Whitening.fit(rng.standard_normal((2, 3, 4)))
    with pytest.raises(ValueError, match="6 features, got 5"):
        Whitening.fit(X).apply(X[:, :5])


def test_stored_and_read_back() -> None:
    X = np.random.default_rng(0).standard_normal((4, 6))
    whitening = Whitening.fit(X, demean=True)
    again = Whitening.from_tensors(whitening.tensors())
    assert torch.equal(again.apply(X), whitening.apply(X))
    kept = whitening.tensors()
    with pytest.raises(ValueError, match="needs matrix too"):
        Whitening.from_tensors({name: kept[name] for name in ("mean", "shift")})
    with pytest.raises(ValueError, match=r"must be \(d,\), \(d, d\)"):
        Whitening.from_tensors(kept | {"matrix": kept["matrix"][:3]})
    with pytest.raises(ValueError, match="not finite"):
        Whitening.from_tensors(kept | {"shift": kept["shift"] * float("nan")})


def test_whitened_classes_have_a_closed_form() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((24, 30)) * rng.uniform(0.1, 5, 30)
    white = Whitening.fit(X, demean=True).apply(X)
    problem = pn.formulate("mlp", white, np.eye(3)[np.arange(24) % 3], activation="relu", gates="all", beta=0.5)
    certificate = pn.solve(problem, "closed_form", tol=1e-8).certificate
    assert certificate.relative_gap <= 1e-8
    assert certificate.scope == "all_arrangements"
