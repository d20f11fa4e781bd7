"""Moving neurons strictly inside their cones, by as little as can be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from provenet.cones import Cones, project
from provenet.cones.facets import facets


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def on_walls(N: int, p: int, B: int, seed: int) -> tuple[Cones, torch.Tensor, torch.Tensor]:
    """Cones, and random points projected on them: most lie on a wall or where some meet."""
    rows, inside = normal(N, p, seed=seed), normal(B, p, seed=seed + 1)
    cones = Cones.of(rows, inside @ rows.T >= 0, inside)
    return cones, project(cones.rows, cones.signs, normal(B, p, seed=seed + 2)).point, torch.arange(B)


@pytest.mark.parametrize(("N", "p"), [(3, 1), (20, 2), (60, 3), (40, 6), (4, 8)])
def test_slacks_are_positive_in_any_order_of_summation(N: int, p: int) -> None:
    cones, u, gate = on_walls(N, p, 50, seed=N)
    pulled = cones.pulled_inside(u, gate)
    terms = cones.rows[None] * pulled[:, None] * cones.signs[gate][:, :, None]
    for products in (terms.sum(2), terms.flip(2).cumsum(2)[:, :, -1], cones.slack(pulled, gate)):
        assert bool((products >= 0).all())
    assert torch.equal(pulled[u.norm(dim=1) == 0], u[u.norm(dim=1) == 0])


def test_in_a_narrow_cone_the_way_inside_is_as_long_as_the_rounding() -> None:
    """The interior point clears the walls by 1e-6: along it the way would be about 1e-8."""
    rows = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 2e-6]], dtype=torch.float64)
    inside = torch.tensor([[1e-6, 1.0, 1.0]], dtype=torch.float64)
    cones = Cones.of(rows, torch.ones(1, 3, dtype=torch.bool), inside)
    edge = torch.tensor([[1e-6, 0.0, 1.0]], dtype=torch.float64)
    corner = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    gate = torch.zeros(1, dtype=torch.long)
    for u in (edge, corner):
        pulled = cones.pulled_inside(u, gate)
        assert float((pulled - u).norm()) <= 1e-13
        assert bool((cones.slack(pulled, gate) > 0).all())


def test_where_many_walls_meet_the_interior_point_helps() -> None:
    """Eight walls of an octagonal cone meet in its apex, and none of them is redundant."""
    angle = torch.arange(8, dtype=torch.float64) * torch.pi / 4
    rows = torch.stack([angle.cos(), angle.sin(), torch.ones(8, dtype=torch.float64)], dim=1)
    cones = Cones.of(rows, torch.ones(1, 8, dtype=torch.bool), torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64))
    outside = 1e-13 * normal(1, 3, seed=0)
    pulled = cones.pulled_inside(outside, torch.zeros(1, dtype=torch.long))
    assert bool((cones.slack(pulled, torch.zeros(1, dtype=torch.long)) >= 0).all())
    assert float(pulled.norm()) <= 1e-11
    assert cones.pulled_inside(outside[:0], torch.zeros(0, dtype=torch.long)).shape == (0, 3)


@pytest.mark.parametrize("r", [2, 3, 4])
def test_of_a_cone_so_thin_that_rounding_leaves_no_point_inside_all_rows_are_kept(r: int) -> None:
    K = np.random.default_rng(0).standard_normal((6, r))
    inside = np.zeros(r)
    inside[0] = 1.0
    K[:, 0] = [1.0, 1.0, 1.0, 1.0, 0.0, -1e-17]
    assert facets(K, inside).tolist() == list(range(6))
    K[:, 0] = [1.0, 1.0, 1.0, 1.0, 1.0, 1e-310]
    assert set(facets(K, inside).tolist()) >= {5}
