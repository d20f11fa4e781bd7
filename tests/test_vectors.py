"""Products that are known to be symmetric."""

from __future__ import annotations

import pytest
import torch

from provenet.vectors import symmetric_product


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8, 37])
def test_half_of_a_symmetric_product_is_all_of_it(size):
    draw = torch.Generator().manual_seed(size)
    rows = torch.randn(size, 11, generator=draw, dtype=torch.float64)
    others = rows * torch.rand(11, generator=draw, dtype=torch.float64)
    found = symmetric_product(rows, others)
    torch.testing.assert_close(found, rows @ others.T, rtol=1e-13, atol=1e-13)
    assert torch.equal(found, found.T)


def test_only_the_upper_blocks_are_multiplied():
    """What is below the diagonal is never looked at."""
    rows = torch.ones(8, 3, dtype=torch.float64)
    others = torch.arange(8.0, dtype=torch.float64)[:, None].expand(8, 3)
    upper = torch.triu(rows @ others.T)
    torch.testing.assert_close(symmetric_product(rows, others), upper + upper.triu(1).T)
