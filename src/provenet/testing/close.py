"""Comparisons that say what they compared."""

from __future__ import annotations

import torch
from torch import Tensor


def assert_close(actual: Tensor, expected: Tensor, tol: float, what: str, size: float | None = None) -> None:
    """max|actual − expected| ≤ tol·size; size: the largest entry of ``expected`` unless given."""
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if expected.numel() == 0:
        return
    difference = float((actual - expected).abs().max())
    scale = float(expected.abs().max()) if size is None else size
    assert difference <= tol * scale, f"{what}: off by {difference:.3e} at size {scale:.3e} (allowed {tol:.1e})"


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
