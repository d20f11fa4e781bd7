"""Cone-constrained PCA in two to six dimensions: bounds against a search by brute force, and against each other."""

from __future__ import annotations

import pytest
import torch

from provenet.cones import Cones, cone_pca
from provenet.cones.branch import branch_and_bound, output_rank
from provenet.cones.relaxation import relaxed
from provenet.cones.search import climb, glance, survey


def random_cones(N: int, p: int, B: int, seed: int) -> Cones:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(N, p, generator=generator, dtype=torch.float64)
    inside = torch.randn(B, p, generator=generator, dtype=torch.float64)
    return Cones.of(rows, inside @ rows.T >= 0, inside)


def matrices(B: int, p: int, c: int, seed: int) -> torch.Tensor:
    return torch.randn(B, p, c, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def brute_force(cones: Cones, G: torch.Tensor, samples: int = 4_000) -> torch.Tensor:
    """The best of many points of each cone, drawn around its inner point at all scales."""
    generator = torch.Generator().manual_seed(1)
    B, p, _ = G.shape
    scale = 10 ** (-2 * torch.rand(B, samples, 1, generator=generator, dtype=torch.float64))
    points = cones.inside[:, None] + scale * torch.randn(B, samples, p, generator=generator, dtype=torch.float64)
    there = (torch.einsum("bsp,np->bsn", points, cones.rows) * cones.signs[:, None]).amin(2) >= 0
    points = points / points.norm(dim=2, keepdim=True)
    return torch.where(there, torch.bmm(points, G).norm(dim=2), 0.0).amax(1)


def reached(G: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return torch.bmm(G.mT, u[:, :, None]).squeeze(2).norm(dim=1)


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("c", [1, 2, 3])
@pytest.mark.parametrize("N", [3, 25])
def test_no_point_of_a_cone_is_above_the_upper_bound_and_the_lower_is_reached(p: int, c: int, N: int) -> None:
    cones, G = random_cones(N, p, 8, seed=N + p), matrices(8, p, c, seed=c)
    found = cone_pca(cones, G)
    assert bool((found.lower <= found.upper).all())
    assert bool((brute_force(cones, G) <= found.upper).all())
    assert torch.allclose(found.u.norm(dim=1), torch.ones(8, dtype=torch.float64), atol=1e-12)
    assert float(cones.slack(found.u, torch.arange(8)).min()) >= -1e-8
    assert bool((reached(G, found.u) >= found.lower * (1 - 1e-9)).all())
    assert bool((found.upper[found.exact] <= found.lower[found.exact] * (1 + 1e-6)).all())
    assert bool(found.exact.all()) or p > 3


@pytest.mark.parametrize(("N", "p", "c"), [(6, 4, 2), (30, 4, 3), (8, 6, 3)])
def test_small_problems_are_closed(N: int, p: int, c: int) -> None:
    found = cone_pca(random_cones(N, p, 6, seed=5), matrices(6, p, c, seed=7))
    assert bool(found.exact.all())
    assert set(found.bounds()) <= {"spectral", "relaxation", "branch", "face search"}
    assert float((found.upper / found.lower).max()) <= 1 + 1e-7


def test_relaxation_and_branches_bound_what_the_faces_give_exactly() -> None:
    cones, G = random_cones(20, 3, 12, seed=3), matrices(12, 3, 3, seed=4)
    exact = cone_pca(cones, G)
    start = climb(cones, G)
    assert bool((start.value <= exact.upper).all())
    relaxation = relaxed(cones, G, start.u, torch.zeros(12, dtype=torch.float64))
    assert bool((relaxation >= exact.lower).all())
    spectral = torch.linalg.svdvals(G)[:, 0]
    assert bool((relaxation <= spectral * (1 + 1e-9)).all())
    leaf = branch_and_bound(cones, G, spectral, lambda lower: lower * (1 + 1e-6), 40_000)
    assert bool((leaf.upper >= exact.lower).all())
    assert bool((leaf.lower <= exact.upper).all())
    assert bool((leaf.upper <= exact.upper * (1 + 2e-6)).all())


def test_the_relaxation_holds_however_badly_its_point_is_chosen() -> None:
    cones, G = random_cones(15, 4, 10, seed=8), matrices(10, 4, 2, seed=9)
    upper = relaxed(cones, G, cones.inside, torch.zeros(10, dtype=torch.float64))
    assert bool((upper >= cone_pca(cones, G).lower).all())


def test_gates_that_need_no_better_bound_get_none() -> None:
    cones, G = random_cones(20, 5, 6, seed=2), matrices(6, 5, 3, seed=2)
    assert set(cone_pca(cones, G, enough=torch.inf).bounds()) == {"spectral"}
    all_tight = cone_pca(cones, G)
    only_largest = cone_pca(cones, G, largest_only=True)
    assert float(only_largest.upper.max()) == pytest.approx(float(all_tight.upper.max()), rel=1e-6)
    assert bool((only_largest.upper >= all_tight.lower).all())


def test_one_gate_at_a_time_gives_what_all_at_once_do() -> None:
    cones, G = random_cones(18, 3, 5, seed=6), matrices(5, 3, 2, seed=6)
    together = cone_pca(cones, G)
    for k in range(5):
        alone = cone_pca(cones.restrict(torch.tensor([k])), G[k : k + 1])
        assert float(alone.upper) == pytest.approx(float(together.upper[k]), rel=1e-12)


def test_equal_eigenvalues_are_bounded_all_the_same() -> None:
    """GGᵀ = I: every unit vector has value one, whatever the eigenvectors."""
    for p in (2, 3):
        cones = random_cones(10, p, 4, seed=p)
        found = cone_pca(cones, torch.eye(p, dtype=torch.float64).expand(4, p, p))
        assert torch.allclose(found.upper, torch.ones(4, dtype=torch.float64), atol=1e-10)
        assert float(cones.slack(found.u, torch.arange(4)).min()) >= -1e-8


def test_directions_of_the_outputs_that_do_nothing_cost_nothing() -> None:
    """Softmax's dual points have rows that add up to zero: one output less matters than there are."""
    cones, G = random_cones(25, 5, 6, seed=11), matrices(6, 5, 4, seed=12)
    G = G - G.mean(2, keepdim=True)
    across = torch.linalg.svd(torch.ones(4, 1, dtype=torch.float64))[0][:, 1:]
    assert output_rank(G) == 3
    whole, part = cone_pca(cones, G), cone_pca(cones, G @ across)
    assert bool(whole.exact.all())
    assert torch.allclose(whole.upper, part.upper, rtol=1e-7)


def test_narrow_cones_in_many_dimensions_are_closed() -> None:
    """At table size: a spectral norm is far above, and bounds meet all the same."""
    cones, G = random_cones(150, 10, 5, seed=21), matrices(5, 10, 4, seed=22)
    found = cone_pca(cones, G, tolerance=1e-4)
    assert float((found.upper / found.lower).max()) <= 1 + 1e-4
    assert set(found.bounds()) == {"branch"}
    assert bool((brute_force(cones, G) <= found.upper).all())
    assert float((torch.linalg.svdvals(G)[:, 0] / found.lower).min()) > 1.3


def test_where_one_gate_is_lost_those_nearly_as_bad_are_found() -> None:
    """A solver that is told of one gate at a time comes back once for each."""
    cones, G = random_cones(150, 10, 40, seed=23), matrices(40, 10, 3, seed=24)
    best = cone_pca(cones, G, tolerance=1e-6).lower
    lost = float(best.median())
    found = cone_pca(cones, G, enough=lost, largest_only=True, against=lost, lost=lost)
    nearly = lost + 0.3 * (float(found.lower.max()) - lost)
    assert bool(((found.lower > nearly) | (found.upper <= nearly * (1 + 1e-9))).all())
    assert bool((found.lower[best > 1.01 * float(best.max() - 0.5 * (best.max() - lost))] > nearly).all())
    assert bool((found.upper >= best * (1 - 1e-9)).all())


def test_a_glance_from_a_point_that_pulls_less_begins_inside() -> None:
    cones, G = random_cones(80, 8, 10, seed=33), matrices(10, 8, 3, seed=34)
    own, best = glance(cones, G), climb(cones, G)
    generator = torch.Generator().manual_seed(0)
    near = cones.pulled_inside(
        cones.inside + 1e-3 * torch.randn(10, 8, generator=generator, dtype=torch.float64), torch.arange(10)
    )
    near = near / near.norm(dim=1, keepdim=True)
    lower = reached(G, near) < reached(G, cones.inside)
    assert 0 < int(lower.sum()) < 10
    there = glance(cones, G, near)
    assert torch.equal(there.u[lower], own.u[lower])
    assert bool((glance(cones, G, best.u).value >= best.value * (1 - 1e-12)).all())


def test_a_survey_finds_what_a_climb_finds() -> None:
    cones, G = random_cones(80, 8, 10, seed=31), matrices(10, 8, 3, seed=32)
    best = cone_pca(cones, G, tolerance=1e-6).lower
    found = survey(cones, G)
    assert bool((found.value >= 0.999 * best).all())
    assert torch.allclose(reached(G, found.u), found.value)
    assert float(cones.slack(found.u, torch.arange(10)).min()) >= -1e-8


@pytest.mark.parametrize("outputs", [1, 2, 6])
@pytest.mark.parametrize("p", [2, 5])
@pytest.mark.parametrize("scale", [1e-300, 1e-165, 1e160, 1e300])
def test_numbers_whose_squares_are_none_are_bounded_too(scale: float, p: int, outputs: int) -> None:
    draw = torch.Generator().manual_seed(0)
    rows, inside = (torch.randn(n, p, generator=draw, dtype=torch.float64) for n in (8, 2))
    G = torch.randn(2, p, outputs, generator=draw, dtype=torch.float64)
    cones = Cones.of(rows, inside @ rows.T >= 0, inside)
    torch.testing.assert_close(cone_pca(cones, G * scale).upper / scale, cone_pca(cones, G).upper, rtol=1e-3, atol=0)
