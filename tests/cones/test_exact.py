"""Cone-constrained PCA in the plane and in space against a fine search, and the counterexample of the relaxation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from provenet.cones import Cones, cone_pca
from provenet.cones.branch import branch_and_bound
from provenet.cones.exact import faces, largest_in_cones
from provenet.cones.facets import facets
from provenet.cones.relaxation import relaxed


def largest_in_cone(G: np.ndarray, K: np.ndarray, inside: np.ndarray) -> tuple[float, np.ndarray]:
    signs = torch.ones(1, len(K), dtype=torch.float64)
    bounding = faces(torch.from_numpy(K), signs, torch.from_numpy(inside / np.linalg.norm(inside))[None])
    found = largest_in_cones(torch.from_numpy(G)[None], bounding)
    assert float(found.lower) <= float(found.upper) <= float(found.lower) * (1 + 1e-10)
    return float(found.upper), found.u[0].numpy()


def cone(rng: np.random.Generator, N: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    inside = rng.standard_normal(r)
    K = rng.standard_normal((N, r))
    K /= np.linalg.norm(K, axis=1)[:, None]
    return K * np.sign(K @ inside)[:, None], inside


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("seed", range(25))
def test_no_point_of_the_cone_is_better_and_its_own_is_one(r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, inside = cone(rng, int(rng.integers(1, 20)), r)
    G = rng.standard_normal((r, int(rng.integers(1, 5))))
    value, u = largest_in_cone(G, K, inside)
    spread = rng.choice([0.01, 0.1, 1.0], (20_000, 1))
    points = inside + spread * rng.standard_normal((20_000, r))
    points = points[(points @ K.T).min(axis=1) >= 0]
    points /= np.linalg.norm(points, axis=1)[:, None]
    assert np.linalg.norm(points @ G, axis=1).max() <= value * (1 + 1e-12)
    assert (K @ u).min() >= -1e-8
    assert np.linalg.norm(G.T @ u) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("r", [3, 4, 5])
def test_rows_that_span_a_line_or_a_plane_have_a_facet_or_two(r: int, rank: int) -> None:
    """However many they are: without that all pairs of them were taken for rays, of 400 rows in five terabytes."""
    rng = np.random.default_rng(0)
    K, inside = cone(rng, 400, rank)
    axes, _ = np.linalg.qr(rng.standard_normal((r, rank)))
    K, inside = K @ axes.T, axes @ inside
    found = facets(K, inside)
    assert len(found) == rank
    if r == 3:
        G = rng.standard_normal((3, 2))
        assert largest_in_cone(G, K, inside)[0] == pytest.approx(largest_in_cone(G, K[found], inside)[0], rel=1e-12)


def test_a_cone_of_which_every_row_is_a_facet_takes_little_memory() -> None:
    angle = 2 * np.pi * np.arange(300) / 300
    K = np.column_stack([np.cos(angle), np.sin(angle), np.ones(300)]) / 2**0.5
    bounding = faces(torch.from_numpy(K), torch.ones(1, 300, dtype=torch.float64), torch.tensor([[0.0, 0.0, 1.0]]))
    assert bounding.rays.shape[1] == 600
    value, u = largest_in_cone(np.array([[1.0], [0.0], [0.0]]), K, np.array([0.0, 0.0, 1.0]))
    assert value == pytest.approx(0.5**0.5, rel=1e-3)  # the cone is round, and as steep as its rows
    assert (K @ u).min() >= -1e-8


def test_of_a_cone_too_thin_for_rounding_only_the_norm_is_known() -> None:
    rng = np.random.default_rng(0)
    K, inside = cone(rng, 60, 3)
    K[0] -= ((K[0] @ inside) / (inside @ inside) + 1e-14) * inside  # the point is a hair outside
    unit = torch.from_numpy(inside / np.linalg.norm(inside))
    bounding = faces(torch.from_numpy(K), torch.ones(1, 60, dtype=torch.float64), unit[None])
    G = rng.standard_normal((3, 2))
    found = largest_in_cones(torch.from_numpy(G)[None], bounding)
    assert bounding.rays.shape[1] <= 5
    assert np.linalg.norm(G, 2) <= float(found.upper) <= np.linalg.norm(G @ G.T) ** 0.5 * (1 + 1e-9)
    assert torch.allclose(found.u[0], unit)


SHIFT = 3.0  # uᵀ(R + shift)u = uᵀRu + shift on unit vectors


def pentagon() -> tuple[Cones, torch.Tensor]:
    """Five facets in space, and G with GGᵀ = R + shift, of slip 12 in CP §4.2."""
    angle = 2 * np.pi * np.arange(5) / 5
    X = np.column_stack([np.cos(angle), np.sin(angle), np.full(5, 0.9)])
    R = 2 * np.eye(3) - 0.5 * sum(np.outer(X[i], X[(i + 2) % 5]) + np.outer(X[(i + 2) % 5], X[i]) for i in range(5))
    G = torch.from_numpy(np.linalg.cholesky(R + SHIFT * np.eye(3)))[None]
    inside = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    return Cones.of(torch.from_numpy(X), torch.ones(1, 5, dtype=torch.bool), inside), G


def test_the_counterexample_to_the_relaxation_in_space() -> None:
    """The copositive relaxation gives 2.0000, the truth is 1.3086 (slip in CP §4.2), and branch and bound finds it."""
    cones, G = pentagon()
    exact = cone_pca(cones, G)
    assert exact.bounds() == ["faces"]
    assert float(exact.upper) ** 2 - SHIFT == pytest.approx(1.3086, abs=1e-4)

    relaxation = relaxed(cones, G, exact.u, target=torch.zeros(1, dtype=torch.float64))
    assert float(relaxation) ** 2 - SHIFT == pytest.approx(2.0, abs=5e-5)

    leaf = branch_and_bound(cones, G, relaxation, lambda lower: lower * (1 + 1e-7), nodes=20_000)
    assert float(leaf.lower) <= float(exact.upper)
    assert float(exact.lower) <= float(leaf.upper)
    assert float(leaf.upper) ** 2 - SHIFT == pytest.approx(1.3086, abs=1e-4)
    assert float(leaf.upper) <= float(leaf.lower) * (1 + 1e-7)


@pytest.mark.parametrize("r", [2, 3, 4])
def test_facets_imply_the_other_rows(r: int) -> None:
    rng = np.random.default_rng(r)
    K, inside = cone(rng, 30, r)
    kept = facets(K, inside)
    points = inside + rng.standard_normal((50_000, r))
    in_facets = (points @ K[kept].T).min(axis=1) >= 0
    assert in_facets.any()
    assert (points[in_facets] @ K.T).min() >= 0
    for row in kept:  # and none of them is implied by the rest: some point meets all but it
        others = np.delete(np.arange(30), row)
        meets = linprog(np.zeros(r), -K[others], np.zeros(29), K[[row]], [-1.0], bounds=(None, None))
        assert meets.status == 0
