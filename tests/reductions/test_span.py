"""The span of data: found where it pays, and not searched for where a look shows that it does not."""

from __future__ import annotations

import pytest
import torch

from provenet.operators.bases import rank


def rows_of(directions: int, p: int, count: int) -> torch.Tensor:
    """Rows (count, p) along so many directions of very different sizes; half of them zero, as behind closed gates."""
    generator = torch.Generator().manual_seed(directions)
    rows = torch.randn(count, directions, generator=generator, dtype=torch.float64) * torch.logspace(0, -3, directions)
    basis = torch.linalg.qr(torch.randn(p, directions, generator=generator, dtype=torch.float64)).Q
    return (rows * (torch.rand(count, 1, generator=generator) > 0.5)) @ basis.T


@pytest.mark.parametrize("count", [300, 20_000])
def test_directions_that_are_left_out_are_found(count: int) -> None:
    for directions in (1, 10, 18):
        rows = rows_of(directions, 20, count)
        basis = rank.paying_span(rows)
        assert basis is not None
        assert basis.shape == (20, directions)
        torch.testing.assert_close(rows @ basis @ basis.T, rows)
    assert rank.paying_span(rows_of(19, 20, count)) is None
    assert rank.paying_span(torch.zeros(count, 20, dtype=torch.float64)).shape == (20, 1)  # type: ignore[union-attr]


def test_many_rows_that_leave_nothing_out_are_not_factorised(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(rows: torch.Tensor) -> torch.Tensor:
        raise AssertionError("a look would have told")

    monkeypatch.setattr(rank, "span", never)
    assert rank.paying_span(rows_of(20, 20, 20_000)) is None
