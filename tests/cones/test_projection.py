"""Projections onto many cones against scipy's non-negative least squares, one by one."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import nnls

from provenet.cones import Projection, project
from provenet.cones.guess import tight_rows


def cones(N: int, p: int, B: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(N, p, generator=generator, dtype=torch.float64)
    rows /= rows.norm(dim=1, keepdim=True)
    inside = torch.randn(B, p, generator=generator, dtype=torch.float64)
    signs = torch.where(inside @ rows.T >= 0, 1.0, -1.0).to(torch.float64)
    return rows, signs, torch.randn(B, p, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("N", "p", "B"), [(1, 1, 2), (30, 2, 40), (3, 8, 10), (40, 5, 30), (200, 12, 20)])
def test_equals_non_negative_least_squares(N: int, p: int, B: int) -> None:
    rows, signs, g = cones(N, p, B, seed=N)
    got = project(rows, signs, g)
    for k in range(B):
        K = (rows * signs[k][:, None]).numpy()
        multipliers, distance = nnls(K.T, -g[k].numpy(), maxiter=10_000)
        assert abs(float(got.point[k].norm()) - distance) <= 1e-10 * float(g[k].norm())
        assert torch.allclose(got.point[k], g[k] + torch.from_numpy(K.T @ multipliers), atol=1e-9)
    assert bool((got.multipliers >= 0).all())
    assert float(got.violation.max()) <= 1e-10


def test_multipliers_give_the_point() -> None:
    rows, signs, g = cones(50, 6, 20, seed=3)
    got = project(rows, signs, g)
    again = g + torch.einsum("bm,bmp->bp", got.multipliers * got.signs, rows[got.rows])
    assert torch.allclose(again, got.point, atol=1e-12)


def test_a_point_inside_stays_and_a_point_of_the_polar_cone_goes_to_zero() -> None:
    rows, signs, _ = cones(20, 3, 1, seed=5)
    K = rows * signs[0][:, None]
    inside = torch.linalg.lstsq(K, torch.ones(20, 1, dtype=torch.float64)).solution.T
    assert bool((K @ inside.T > 0).all()), "the example needs a point inside"
    assert torch.equal(project(rows, signs, inside).point, inside)
    outside = -K.sum(0, keepdim=True)
    assert float(project(rows, signs, outside).point.norm()) <= 1e-10 * float(outside.norm())


def test_a_start_changes_only_the_time() -> None:
    rows, signs, g = cones(80, 7, 25, seed=9)
    near = project(rows, signs, g)
    moved = g + 0.05 * g.roll(1, 0)
    assert torch.allclose(project(rows, signs, moved, near).point, project(rows, signs, moved).point, atol=1e-9)


def test_repeated_and_zero_rows_do_no_harm() -> None:
    rows, signs, g = cones(10, 4, 8, seed=2)
    more = torch.cat([rows, rows[:3], torch.zeros(1, 4, dtype=rows.dtype)])
    more_signs = torch.cat([signs, signs[:, :3], torch.ones(8, 1, dtype=rows.dtype)], dim=1)
    assert torch.allclose(project(more, more_signs, g).point, project(rows, signs, g).point, atol=1e-9)


@pytest.mark.parametrize("enough", [0.0, 1.0])
def test_a_guess_in_many_dimensions_changes_only_the_time(enough: float) -> None:
    rows, signs, g = cones(300, 20, 40, seed=4)
    rows[::50] = 0.0
    rows[1:5] = rows[6:10]
    signs[:, 1:5] = signs[:, 6:10]
    g *= torch.logspace(-6, 6, 40, dtype=g.dtype)[:, None]
    g[3] = 0.0
    row, multipliers = tight_rows(rows, signs, g, enough)
    assert bool((multipliers >= 0).all())
    assert bool((rows[row[multipliers > 0]].abs().amax(1) > 0).all())
    none = Projection(g, row[:, :0], multipliers[:, :0], multipliers[:, :0], g[:, 0])
    got, plain = project(rows, signs, g, enough=enough), project(rows, signs, g, none)
    length, least = got.point.norm(dim=1), plain.point.norm(dim=1)
    assert bool((length >= least - 1e-12 * g.norm(dim=1)).all())
    assert bool((length <= (least + 1e-11 * g.norm(dim=1)).clamp_min(enough)).all())
    again = g + torch.einsum("bm,bmp->bp", got.multipliers * got.signs, rows[got.rows])
    assert bool(((again - got.point).norm(dim=1) <= 1e-12 * g.norm(dim=1)).all())


def test_no_guess_where_it_does_not_pay_or_a_sign_is_zero() -> None:
    assert tight_rows(*cones(200, 5, 4, seed=0), 0.0) is None
    rows, signs, g = cones(100, 15, 4, seed=0)
    assert tight_rows(rows, signs, g, 0.0) is not None
    signs[0, 0] = 0.0
    assert tight_rows(rows, signs, g, 0.0) is None
