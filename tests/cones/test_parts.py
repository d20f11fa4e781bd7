"""Cones that are products: projected on part by part, as if they were not."""

from __future__ import annotations

import torch

from provenet.cones.parts import parts_of
from provenet.cones.projection import project


def product(s: int, n: int, seed: int = 0) -> torch.Tensor:
    """Rows (s·n, s²) of the mixer's kind: a table in every part, its rows one after the other."""
    draw = torch.Generator().manual_seed(seed)
    table = torch.nn.functional.normalize(torch.randn(n, s, generator=draw, dtype=torch.float64), dim=1)
    return torch.kron(torch.eye(s, dtype=torch.float64), table)


def test_copies_of_a_table_are_found_in_any_order_of_columns() -> None:
    rows = product(4, 7)
    (part,) = parts_of(rows) or []
    assert part.rows.shape == (4, 7)
    assert part.columns.shape == (4, 4)
    turned = rows[:, torch.randperm(16, generator=torch.Generator().manual_seed(0))]
    assert sum(len(part.rows) for part in parts_of(turned) or []) == 4
    assert parts_of(torch.randn(20, 15)) is None
    assert parts_of(product(2, 5)) is None


def test_the_projection_is_the_one_of_all_rows() -> None:
    rows = product(4, 30)
    draw = torch.Generator().manual_seed(1)
    signs = torch.where(torch.randn(6, 16, generator=draw, dtype=torch.float64) @ rows.T >= 0, 1.0, -1.0).double()
    g = torch.randn(6, 16, generator=draw, dtype=torch.float64)
    found = project(rows, signs, g)
    full = torch.eye(16, dtype=torch.float64) + 1e-300  # no zeros: one part, of the same rows
    whole = project(rows @ full + 1e-300, signs, g)
    torch.testing.assert_close(found.point, whole.point, rtol=0, atol=1e-10)
    force = torch.zeros(6, len(rows), dtype=torch.float64).scatter_add(1, found.rows, found.multipliers * found.signs)
    torch.testing.assert_close(g + force @ rows, found.point, rtol=0, atol=1e-12)
    assert bool((found.multipliers >= 0).all())
    assert float(found.violation.max()) < 1e-10
    again = project(rows, signs, g + 1e-6, found)
    torch.testing.assert_close(again.point, project(rows, signs, g + 1e-6).point, rtol=0, atol=1e-10)


def test_columns_without_rows_and_parts_with_few_rows() -> None:
    rows = torch.zeros(9, 14, dtype=torch.float64)
    rows[0, 0] = rows[1, 1] = 1.0
    rows[2:, 2:6] = torch.nn.functional.normalize(torch.randn(7, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    g = torch.randn(3, 14, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = project(rows, torch.ones(3, 9, dtype=torch.float64), g)
    assert found.rows.shape == (3, 10)
    assert float(found.violation.max()) < 1e-10
    torch.testing.assert_close(found.point[:, 6:], g[:, 6:])
    torch.testing.assert_close(found.point[:, :2], g[:, :2].clamp_min(0))
