"""Directions that data leave unused."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.operators.bases.axes import Axes

_ROWS = 2**16  # at a time, where they pass through a factorisation
MOST_AXES = 2_000  # an eigenproblem of this size takes seconds
_TYPICAL = 16  # rows for each direction show the data's axes as well as all of them would
_PAYS = 0.9  # of the directions: with more of them in use, fewer are not worth the change
_QUICK = 256  # directions from which on a quick look at their number comes first
_MANY = 4  # times as many rows as show the axes, from which on a look at those comes first
_CLEAR = 1e-6  # of the largest pivot: the others are so clearly not zero


def span(rows: Tensor) -> Tensor:
    """An orthonormal basis (p, r) of the span of rows (…, p), up to rounding; r is one at least."""
    p = rows.shape[-1]
    flat = rows.reshape(-1, p)
    if len(flat) > 4 * p:  # its triangle has the same singular values and right singular vectors
        triangle = flat[:0]
        for some in flat.split(max(_ROWS, 4 * p)):
            triangle = torch.linalg.qr(torch.cat([triangle, some]), mode="r").R
        flat = triangle
    _, sigma, Vh = torch.linalg.svd(flat, full_matrices=False)
    rank = int((sigma > sigma.max() * max(rows.shape) * torch.finfo(rows.dtype).eps).sum())
    return Vh[: max(rank, 1)].T


def is_affordable(rows: Tensor) -> bool:
    """Whether there is time for their `span`, where there is a deadline."""
    p = rows.shape[-1]
    count = rows.numel() / max(p, 1)
    return deadline.affords(2.0 * count * p * p + 6.0 * min(count, 4.0 * p) * p * min(count, p))


def paying_span(rows: Tensor) -> Tensor | None:
    """The `span` (p, r), where it is so much smaller than p that it pays."""
    if _clearly_fill(rows):
        return None
    basis = span(rows)
    return basis if basis.shape[1] <= _PAYS * rows.shape[-1] else None


def _clearly_fill(rows: Tensor) -> bool:
    """Whether a few of the rows (…, p), as many as would not pay, are clearly independent of one another: the pivots of
    their Gram matrix tell, ten times sooner than singular values.  Or, of short rows, whether some of very many, zeros
    behind closed gates among them, clearly leave no direction out: the pivots of their moments tell."""
    p = rows.shape[-1]
    flat, enough = rows.reshape(-1, p), int(_PAYS * p) + 1
    if p < _QUICK:
        stride = len(flat) // (_TYPICAL * max(p, 1))
        if stride < _MANY:
            return False
        gram = moments_of(rows, stride)
    elif len(flat) < enough:
        return False
    else:
        some = flat[:: len(flat) // enough][:enough]
        gram = some @ some.T
    triangle, failed = torch.linalg.cholesky_ex(gram)
    pivots = triangle.diagonal()
    return not failed and bool(pivots.min() > _CLEAR * pivots.max())


def axes_of(rows: Tensor) -> Axes | None:
    """Eigenvectors (p, p) and eigenvalues (p,), falling, of the second moments of rows (…, p), in their precision; of
    evenly spaced ones where there are many.  None where p is large, or there is no time."""
    p = rows.shape[-1]
    stride = typical_stride(rows.numel() // max(p, 1), p)
    return None if stride is None else axes_from(moments_of(rows, stride), rows.dtype)


def typical_stride(count: int, p: int) -> int | None:
    """Every how many of so many rows are looked at for their axes; None where that does not pay."""
    stride = max(1, count // (_TYPICAL * p))
    affordable = p <= MOST_AXES and deadline.affords(float(count) // stride * p * p + 10.0 * p**3)
    return stride if affordable else None


def moments_of(rows: Tensor, stride: int) -> Tensor:
    """Second moments (p, p) of rows (…, p), every ``stride``-th for as many, in float64."""
    flat = rows.reshape(-1, rows.shape[-1])[::stride]
    return (flat.T @ flat).to(torch.float64).mul_(stride)


def axes_from(moments: Tensor, dtype: torch.dtype) -> Axes:
    values, vectors = torch.linalg.eigh(moments)
    return Axes(vectors.flip(1).to(dtype).contiguous(), values.flip(0).clamp_min(0).to(dtype))
