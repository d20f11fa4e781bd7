"""Cone-constrained PCA by its faces: all of them, one after the other, are the reference."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import cone_pca
from provenet.cones.cones import Cones
from provenet.cones.face_search import affordable, search_faces


def some_cones(rows: Tensor, count: int, seed: int = 0) -> Cones:
    inside = torch.randn(count, rows.shape[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Cones.of(rows, inside @ rows.T >= 0, inside)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def best_of_all_faces(K: np.ndarray, R: np.ndarray) -> float:
    """Top eigenvectors of every face that are in the cone; written anew, without any pruning."""
    best = 0.0
    for size in range(K.shape[1]):
        for tight in combinations(range(len(K)), size):
            basis = scipy.linalg.null_space(K[list(tight)]) if tight else np.eye(K.shape[1])
            if basis.shape[1] == 0:
                continue
            values, vectors = np.linalg.eigh(basis.T @ R @ basis)
            for u in (basis @ vectors[:, -1], -basis @ vectors[:, -1]):
                if (K @ u >= -1e-9).all():
                    best = max(best, float(values[-1]))
    return best**0.5


def searched(cones: Cones, G: Tensor, most: int = 100_000) -> tuple[Tensor, Tensor, Tensor]:
    sigma = torch.linalg.svdvals(G)[:, 0] * (1 + 1e-12)
    return search_faces(cones, G, sigma, torch.zeros_like(sigma), most)


@pytest.mark.parametrize(("r", "n", "c"), [(4, 12, 3), (5, 9, 6), (6, 8, 7)])
def test_it_finds_what_all_faces_have(r: int, n: int, c: int) -> None:
    rows, G = normal(n, r), normal(3, r, c, seed=1)
    cones = some_cones(rows, 3)
    upper, value, u = searched(cones, G)
    for k in range(3):
        K = (cones.rows * cones.signs[k][:, None]).numpy()
        assert float(upper[k]) == pytest.approx(best_of_all_faces(K, (G[k] @ G[k].T).numpy()), rel=1e-9)
        assert (K @ u[k].numpy() >= -1e-9).all()
    assert torch.allclose(value, upper, rtol=1e-9)
    assert torch.allclose(torch.linalg.vector_norm(torch.bmm(G.mT, u[:, :, None]), dim=(1, 2)), value, rtol=1e-9)


@pytest.mark.parametrize("r", [4, 5])
def test_rows_that_hang_together(r: int) -> None:
    """Whole numbers as features: many facets meet in one face, which generic data never have."""
    draw = np.random.default_rng(0)
    rows = torch.tensor(draw.integers(-1, 2, (11, r)).astype(float))
    rows = rows[rows.any(1)]
    rows = torch.cat([rows, rows[:2], -rows[:1]])  # the same twice, and from its other side
    cones, G = some_cones(rows, 4), normal(4, r, 6, seed=2)
    upper, _, _ = searched(cones, G)
    for k in range(4):
        K = (cones.rows * cones.signs[k][:, None]).numpy()
        exact = best_of_all_faces(np.unique(K, axis=0), (G[k] @ G[k].T).numpy())
        assert exact * (1 - 1e-12) <= float(upper[k]) <= exact * (1 + 1e-7)


@pytest.mark.parametrize(("n", "G"), [(2, normal(2, 5, 5)), (9, torch.eye(5, dtype=torch.float64).expand(2, 5, 5))])
def test_cones_with_lines_and_equal_eigenvalues(n: int, G: Tensor) -> None:
    cones = some_cones(normal(n, 5), 2)
    upper, _, _ = searched(cones, G)
    for k in range(2):
        K = (cones.rows * cones.signs[k][:, None]).numpy()
        exact = best_of_all_faces(K, (G[k] @ G[k].T).numpy())
        assert float(upper[k]) == pytest.approx(exact, rel=1e-9)


def test_a_search_that_is_cut_short_still_bounds() -> None:
    cones, G = some_cones(normal(40, 6), 5), normal(5, 6, 8, seed=1)
    whole, _, _ = searched(cones, G)
    for most in (0, 1, 50):
        upper, value, _ = searched(cones, G, most)
        assert bool((upper >= whole * (1 - 1e-12)).all())
        assert bool((value <= whole * (1 + 1e-12)).all())
    with deadline.within(0.0):
        assert not affordable(some_cones(normal(40, 6), 5))
        found = cone_pca(cones, G)
    assert bool((found.upper >= whole * (1 - 1e-12)).all())


@pytest.mark.parametrize("r", [4, 5, 6])
def test_many_outputs_are_exact_in_up_to_six_dimensions(r: int) -> None:
    found = cone_pca(some_cones(normal(40, r), 6), normal(6, r, 9, seed=1), tolerance=1e-9)
    assert bool(found.exact.all())
    assert set(found.bounds()) <= {"face search", "spectral"}
    assert not affordable(some_cones(normal(10, 7), 1))
