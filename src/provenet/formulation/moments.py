"""Means and spreads of samples in shards: as `Scaling.fit` has them, up to rounding, in three passes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from provenet.data.shards import Shards
from provenet.scaling import Scaling, axis_of
from provenet.statement import Statement

_CONSTANT = 16 * torch.finfo(torch.float64).eps  # of the largest number: a spread below is rounding
_TINY = torch.finfo(torch.float64).tiny


def scaling_of(X: Shards, Y: Tensor, statement: Statement, weight: Tensor | None) -> Scaling:
    """Of samples, and of targets Y (n, …, c) where the loss measures distances."""
    axis = axis_of(statement.block.tokens)
    mean, spread = _moments(X, axis, weight)
    scale = torch.where(spread > 0, 1 / spread.clamp_min(_TINY), 0.0)
    if not statement.loss.measures:
        return Scaling(axis, mean, scale)
    targets = Scaling.fit(Y, Y, -1, weight, robust=statement.loss.measures == "median")
    return Scaling(axis, mean, scale, targets.target_mean, targets.target_spread)


def _moments(X: Shards, axis: int, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """(mean, spread) (d,); in units of the largest number, so that no square leaves float64."""
    ends = [rows.aminmax(dim=0) for rows, _ in _rows(X, axis, None)]
    low, high = (torch.stack([end[k] for end in ends]) for k in (0, 1))
    low, high = low.amin(0), high.amax(0)
    size = torch.exp2(torch.frexp(torch.maximum(-low, high).clamp_min(_TINY)).exponent.to(torch.float64) - 1)
    mean, total = torch.zeros_like(size), 0.0
    for rows, share in _rows(X, axis, weight):
        mean += (share * (rows / size)).sum(0)
        total += float(share.sum())
    mean /= total
    off, squares = torch.zeros_like(size), torch.zeros_like(size)
    for rows, share in _rows(X, axis, weight):
        centred = rows / size - mean
        off += (share * centred).sum(0)
        squares += (share * centred.square()).sum(0)
    spread = (squares / total).sqrt()
    constant = (low == high) | (spread <= _CONSTANT * torch.maximum(-low, high) / size)
    return torch.where(low == high, low, (mean + off / total) * size), torch.where(constant, 0.0, spread * size)


def _rows(X: Shards, axis: int, weight: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """A pass: rows (r, d) in float64, and how much each counts (r, 1)."""
    largest = 1.0 if weight is None else float(weight.max())
    for part, x in X.tiles():
        rows = x.to(torch.float64).movedim(axis, -1)
        share = torch.ones(rows.shape[:-1], dtype=torch.float64)
        if weight is not None:
            share = share * (weight[part] / largest).view(-1, *[1] * (rows.ndim - 2))
        yield rows.flatten(0, -2), share.flatten().unsqueeze(1)
