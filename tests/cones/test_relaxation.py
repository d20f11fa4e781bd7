"""The copositive bound from few pairs of the dual cone: tight in narrow cones whatever the number of outputs, a bound
in all, and the same where it is made of what the last one has left."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import Tensor

from provenet.cones import Cones, cone_pca, project
from provenet.cones.relaxation import relaxed
from provenet.cones.search import ascent, climb


def posed(n: int, p: int, c: int, gates: int = 6, seed: int = 0) -> tuple[Cones, Tensor]:
    """Slopes A_k*Θ of a residual that a few neurons leave: peaks lie in the cones, as they do in a run."""
    draw = torch.Generator().manual_seed(seed)
    phi = torch.randn(n, p, generator=draw, dtype=torch.float64)
    inside = torch.randn(gates, p, generator=draw, dtype=torch.float64)
    theta = torch.randn(n, c, generator=draw, dtype=torch.float64)
    patterns = inside @ phi.T >= 0
    G = torch.stack([(phi * open_[:, None]).T @ theta for open_ in patterns])
    return Cones.of(phi, patterns, inside), G


def nothing(G: Tensor) -> Tensor:
    """No bound suffices: all that can be had is wanted."""
    return torch.zeros(len(G), dtype=G.dtype)


@pytest.mark.parametrize(("n", "p", "c"), [(120, 6, 9), (200, 9, 12), (60, 5, 4)])
def test_narrow_cones_are_bounded_tightly_with_any_number_of_outputs(n: int, p: int, c: int) -> None:
    cones, G = posed(n, p, c)
    peak = climb(cones, G)
    upper = relaxed(cones, G, peak.u, peak.value * (1 + 1e-4))
    assert bool((upper >= peak.value).all())
    assert float((upper / peak.value).max()) <= 1 + 1e-3
    assert float((torch.linalg.svdvals(G)[:, 0] / peak.value).max()) > 1.1


def test_it_is_the_relaxation_as_cvxpy_has_it() -> None:
    """max ⟨GGᵀ, U⟩ over U ⪰ 0 of trace one with KUKᵀ ≥ 0 (CP eq. 3), in cones that are wide."""
    cones, G = posed(9, 4, 3, gates=4, seed=3)
    upper = relaxed(cones, G, climb(cones, G).u, nothing(G))
    for k in range(len(G)):
        K, square = (cones.rows * cones.signs[k][:, None]).numpy(), (G[k] @ G[k].T).numpy()
        U = cp.Variable((4, 4), PSD=True)
        problem = cp.Problem(cp.Maximize(cp.trace(square @ U)), [cp.trace(U) == 1, K @ U @ K.T >= 0])
        value = problem.solve(solver=cp.CLARABEL)
        assert float(upper[k]) ** 2 == pytest.approx(value, rel=1e-4)
        assert float(upper[k]) ** 2 >= value * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_no_point_of_a_cone_is_above_it_from_whatever_peak(seed: int) -> None:
    cones, G = posed(30, 4, 6, gates=3, seed=seed)
    draw = torch.Generator().manual_seed(9)
    anywhere = project(cones.rows, cones.signs, torch.randn(3, 4, generator=draw, dtype=torch.float64)).point
    anywhere = anywhere + 1e-3 * cones.inside
    anywhere = anywhere / anywhere.norm(dim=1, keepdim=True)
    best = climb(cones, G).value
    for u in (cones.inside, anywhere):
        assert bool((relaxed(cones, G, u, nothing(G)) >= best * (1 - 1e-12)).all())


def test_what_the_last_bound_has_left_proves_as_much_for_a_slope_nearby() -> None:
    cones, G = posed(120, 6, 9)
    warm = cones.remembering()
    peak = climb(cones, G)
    first = relaxed(warm, G, peak.u, peak.value * (1 + 1e-4))
    moved = 4 * (G + 1e-6 * torch.roll(G, 1, 0))  # other units, and a little farther
    again = relaxed(warm, moved, cones.inside, 4 * first * (1 + 1e-4))  # a poor point, that is not needed
    assert bool((again <= 4 * first * (1 + 1e-4)).all())
    assert bool((again >= climb(cones, moved).value).all())
    some = torch.tensor([4, 1])
    assert torch.allclose(relaxed(warm.restrict(some), moved[some], cones.inside[some], 5 * first[some]), again[some])


def test_ascents_find_the_peaks_of_narrow_cones_and_go_on_from_them() -> None:
    cones, G = posed(200, 6, 5)
    warm = cones.remembering()
    found = ascent(warm, G)
    assert bool((found.value >= 0.999 * climb(cones, G).value).all())
    again = ascent(warm, G)
    assert torch.allclose(again.value, found.value)
    assert float(cones.slack(again.u, torch.arange(6)).min()) >= -1e-8


def test_rows_of_whole_numbers_do_not_mislead_a_projection() -> None:
    """Many depend on others: a guess of the tight ones has more than can be."""
    draw = torch.Generator().manual_seed(0)
    phi = torch.cat([torch.randint(0, 2, (150, 14), generator=draw).double(), torch.ones(150, 1).double()], dim=1)
    inside = torch.randn(30, 15, generator=draw, dtype=torch.float64)
    cones = Cones.of(phi, inside @ phi.T >= 0, inside)
    g = torch.randn(30, 15, generator=draw, dtype=torch.float64)
    found = project(cones.rows, cones.signs, g)
    assert float((found.violation / g.norm(dim=1)).max()) <= 1e-9
    misled = project(cones.rows, cones.signs, -g, found)  # begun with the rows of the opposite
    afresh = project(cones.rows, cones.signs, -g)
    assert torch.allclose(misled.point, afresh.point, atol=1e-9)


def test_what_is_lost_is_not_bounded_and_what_is_enough_no_further() -> None:
    cones, G = posed(120, 6, 9)
    largest = float(climb(cones, G).value.max())
    lost = cone_pca(cones, G, largest_only=True, lost=0.9 * largest)
    assert float(lost.lower.max()) > 0.9 * largest
    assert np.allclose(lost.upper, torch.linalg.svdvals(G)[:, 0])
    enough = cone_pca(cones, G, enough=1.01 * largest, largest_only=True, lost=1.01 * largest)
    assert float(enough.upper.max()) <= 1.01 * largest
