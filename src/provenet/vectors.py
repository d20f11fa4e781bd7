"""Unit vectors on the last axis, and the powers of two and four that numbers are divided by without rounding."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

_BLOCKS = 4  # of a symmetric matrix's rows
_EXPONENT = 1000  # powers of two up to this one, and their inverses, are numbers with all digits


def unit(vectors: Tensor) -> Tensor:
    """Each of length one; zeros stay zeros."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp_min(torch.finfo(vectors.dtype).tiny)


def power_of_two(values: Tensor) -> float:
    """The power of two next to the largest entry: divided by it, entries can be squared, and none is rounded that
    counts.  1 for zeros, and where an entry is not finite."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    if not 0 < largest < math.inf:
        return 1.0
    return 2.0 ** min(max(math.frexp(largest)[1], -_EXPONENT), _EXPONENT)


def power_of_four(size: float) -> float:
    """The power of four next to ``size``; 1 for nothing to scale."""
    if not size > 0:
        return 1.0
    return 4.0 ** min(math.frexp(size)[1] // 2, 511)  # 4⁵¹² would overflow


def times_power_of_two(values: Tensor, exponent: Tensor | int) -> Tensor:
    """values·2^exponent, rounded only where float64 itself ends.  `torch.ldexp` is not that everywhere: before it was
    mended it took 2^exponent in float32, where there is none beyond 2¹²⁷."""
    power = exponent.cpu().numpy().astype(np.int32) if isinstance(exponent, Tensor) else exponent
    return torch.as_tensor(np.ldexp(values.detach().cpu().numpy(), power), device=values.device)


def symmetric_product(rows: Tensor, others: Tensor) -> Tensor:
    """rows·othersᵀ (N, N), known to be symmetric: little more than half of it is multiplied, the rest mirrored."""
    size = len(rows)
    each = max(-(-size // _BLOCKS), 1)
    product = rows.new_zeros(size, size)
    for start in range(0, size, each):
        torch.mm(rows[start : start + each], others[start:].T, out=product[start : start + each, start:])
    product.triu_()
    return product + product.triu(1).T
