"""The copositive bound by all pairs of facets at once, in many dimensions: a bound, and a tight one."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

from provenet import deadline
from provenet.cones import Cones, cone_pca, project
from provenet.cones.doubly import _facets, _Split, doubly_bounded
from provenet.cones.search import climb
from tests.cones.test_parts import product
from tests.cones.test_relaxation import posed


def test_it_comes_down_to_the_relaxation_of_cvxpy_and_not_below() -> None:
    cones, G = posed(14, 5, 4, gates=3, seed=2)
    found = climb(cones, G)
    upper = doubly_bounded(cones, G, found.value, torch.zeros_like(found.value))
    for k in range(len(G)):
        K, square = (cones.rows * cones.signs[k][:, None]).numpy(), (G[k] @ G[k].T).numpy()
        U = cp.Variable((5, 5), PSD=True)
        best = cp.Problem(cp.Maximize(cp.trace(square @ U)), [cp.trace(U) == 1, K @ U @ K.T >= 0])
        value = float(np.sqrt(best.solve(solver=cp.CLARABEL)))
        assert value * (1 - 1e-6) <= float(upper[k]) <= 1.02 * value


@pytest.mark.parametrize("seed", range(3))
def test_no_unit_vector_of_a_cone_is_above_it(seed: int) -> None:
    cones, G = posed(40, 6, 5, gates=4, seed=seed)
    upper = doubly_bounded(cones, G, torch.zeros(4, dtype=G.dtype), torch.zeros(4, dtype=G.dtype))
    draw = torch.Generator().manual_seed(seed)
    for _ in range(20):
        u = project(cones.rows, cones.signs, torch.randn(4, 6, generator=draw, dtype=torch.float64)).point
        length = torch.linalg.vector_norm(u, dim=1)
        pull = torch.linalg.vector_norm(torch.bmm(u[:, None], G), dim=(1, 2))
        assert bool(((pull <= upper * length * (1 + 1e-9)) | (length < 1e-9)).all())
    assert bool((climb(cones, G).value <= upper).all())


def _product() -> tuple[Cones, torch.Tensor]:
    """The mixer's cones: 36 dimensions, more outputs than a branch and bound takes."""
    rows = product(6, 60)
    draw = torch.Generator().manual_seed(0)
    inside = torch.randn(2, 36, generator=draw, dtype=torch.float64)
    theta = torch.randn(len(rows), 8, generator=draw, dtype=torch.float64)
    G = torch.stack([(rows * (row > 0)[:, None]).T @ theta for row in inside @ rows.T])
    return Cones.of(rows, inside @ rows.T >= 0, inside).remembering(), G


def test_products_of_narrow_cones_are_bounded_closely_where_few_pairs_were_not() -> None:
    cones, G = _product()
    found = cone_pca(cones, G, tolerance=0.02)
    assert bool((found.lower <= found.upper).all())
    assert float((found.upper / found.lower).max()) <= 1.05
    assert float((torch.linalg.svdvals(G)[:, 0] / found.lower).max()) > 1.2
    again = doubly_bounded(cones, G, found.lower, found.upper * (1 + 1e-9))
    torch.testing.assert_close(again, found.upper, rtol=1e-6, atol=0)


def test_a_bound_begins_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another G next to it: as tight in a fraction of the steps, and no neuron in the cones is above it."""
    cones, G = _product()
    steps, real = [0], _Split.step

    def counted(self: _Split) -> None:
        steps[0] += len(self.R)
        real(self)

    monkeypatch.setattr(_Split, "step", counted)
    peak = climb(cones, G).value
    doubly_bounded(cones, G, peak, 1.02 * peak)
    moved = G * (1 + 0.01 * torch.randn(G.shape, generator=torch.Generator().manual_seed(1), dtype=G.dtype))
    peak = climb(cones, moved).value
    goal = 1.03 * peak
    fresh, _ = _product()
    steps[0] = 0
    anew = doubly_bounded(fresh, moved, peak, goal)
    cold, steps[0] = steps[0], 0
    again = doubly_bounded(cones, moved, peak, goal)
    assert bool((anew <= goal).all())
    assert bool((again <= goal).all())
    assert bool((again >= peak).all())
    assert steps[0] <= cold / 2


def test_no_walls_are_looked_for_when_the_time_is_over_and_what_is_not_found_is_not_remembered() -> None:
    cones, G = posed(40, 6, 5, gates=4, seed=0)
    cones = cones.remembering()
    with deadline.within(0.0):
        assert not bool(_facets(cones).any())
        upper = doubly_bounded(cones, G, torch.zeros(4, dtype=G.dtype), torch.zeros(4, dtype=G.dtype))
    assert bool((climb(cones, G).value <= upper).all())
    assert bool((_facets(cones) > 0).any(1).all())
