"""Dual points whose columns sum to zero exactly: what an intercept without penalty asks of them.

No rounding error is left to be bounded.  Entries are rounded towards zero to whole numbers of ticks, a power of two
each, so few that sums of them are exact; what a column's sum misses is then taken off, tick by tick.  Rounding and
taking off shrink entries, which keeps them in the domain of the conjugate.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from provenet.vectors import times_power_of_two

_MOST_BITS = 53  # of a float64
_SUM_BITS = 62  # of sums of ticks
_LEAST = -900  # exponent of the largest entry below which all are taken for zero
_INSIDE = 2.0**-36  # how far mixtures are drawn to the dual point of the zero network


def is_balanced(dual: Tensor) -> bool:
    """Whether each column of Θ (…, c) sums to zero, with no rounding; False where that cannot be told."""
    rows = dual.reshape(-1, dual.shape[-1]).to(torch.float64)
    if not bool(torch.isfinite(rows).all()):
        return False
    exponent = _exponents(rows)
    scaled = times_power_of_two(rows, _bits(rows) - exponent)
    ticks = scaled.round()
    return bool((ticks == scaled).all()) and not bool(ticks.to(torch.int64).sum(0).any())


def balanced_boxes(dual: Tensor) -> Tensor:
    """Where each entry may shrink on its own: of each column the larger side, positive or negative, does."""
    rows = dual.reshape(-1, dual.shape[-1])
    above, below = rows.clamp_min(0).sum(0), -rows.clamp_max(0).sum(0)
    least = torch.minimum(above, below)
    shrink = torch.where(rows > 0, _share(least, above), _share(least, below))
    rows = rows * shrink
    exponent = _exponents(rows)
    ticks = _ticks(rows, exponent)
    excess = ticks.sum(0)
    up = _less(ticks.clamp_min(0), excess.clamp_min(0))
    down = _less((-ticks).clamp_min(0), (-excess).clamp_min(0))
    return _floats(up - down, exponent, dual)


def balanced_flows(dual: Tensor, target: Tensor) -> Tensor:
    """For labels, one-hot targets (…, c): Θ_i moves probability from the label of row i to other classes, and what
    leaves a class must be what arrives there.  What is too much is taken back along paths between classes."""
    c = dual.shape[-1]
    rows, labels = dual.reshape(-1, c), target.reshape(-1, c)
    moved = rows.clamp_min(0) * (1 - labels)
    exponent = _exponents(moved.sum(1, keepdim=True))
    ticks = _ticks(moved, exponent)
    label = labels.argmax(1)
    flow = ticks.new_zeros(c, c).index_add_(0, label, ticks)
    excess = (flow - flow.new_tensor(_circulation(flow.tolist()))).clamp_min(0)
    for source in torch.nonzero(excess.any(1)).flatten().tolist():
        members = torch.nonzero(label == source).flatten()
        ticks[members] = _less(ticks[members], excess[source])
    return _floats(ticks - labels.to(torch.int64) * ticks.sum(1, keepdim=True), exponent, dual)


def balanced_mixtures(dual: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """For targets (…, c) on the simplex: a hair towards the zero network's Θ, w(mean − y); what is left of a column's
    sum is moved to or from the commonest class, in the row where that which shrinks has most probability.  Classes of
    which targets have nothing, or less than such moves, take no part."""
    c = dual.shape[-1]
    rows, y = dual.reshape(-1, c), target.reshape(-1, c)
    w = weight.expand(*target.shape[:-1], 1).reshape(-1, 1)
    mean = (w * y).sum(0) / w.sum()
    centred = rows - w * rows.sum(0) / w.sum()
    inner = torch.maximum(torch.lerp(centred, w * (mean - y), _INSIDE), -w * y)
    exponent = _exponents(inner.abs().sum(1, keepdim=True))
    room = times_power_of_two(w * (y + inner / w), _bits(rows) - exponent)  # in ticks
    common = mean > 0
    common &= room.amax(0) > 4 * len(rows) * c
    ticks = _ticks(torch.where(common, inner, 0.0), exponent)
    own = room.argmax(1, keepdim=True)  # the likeliest class has room on both sides
    ticks.scatter_add_(1, own, -ticks.sum(1, keepdim=True))
    richest, commonest = room.argmax(0), int(mean.argmax())
    for a, excess in enumerate(ticks.sum(0).tolist()):
        if a != commonest:
            row = richest[a if excess > 0 else commonest]
            ticks[row, a] -= excess
            ticks[row, commonest] += excess
    return _floats(ticks, exponent, dual)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.clamp_min(torch.finfo(whole.dtype).tiny), 0.0)


def _bits(rows: Tensor) -> int:
    return min(_MOST_BITS, _SUM_BITS - (len(rows) * rows.shape[1]).bit_length())


def _exponents(rows: Tensor) -> Tensor:
    """e (columns,) with |entries| < 2^e."""
    return torch.frexp(rows.abs().amax(0)).exponent


def _ticks(rows: Tensor, exponent: Tensor) -> Tensor:
    """Rounded towards zero; none where entries are so small that a tick would be no number."""
    ticks = times_power_of_two(rows, _bits(rows) - exponent).trunc().to(torch.int64)
    return torch.where(exponent > _LEAST, ticks, 0)


def _floats(ticks: Tensor, exponent: Tensor, like: Tensor) -> Tensor:
    values = times_power_of_two(ticks.to(like.dtype), exponent - _bits(ticks))
    return values.view_as(like)


def _less(ticks: Tensor, amount: Tensor) -> Tensor:
    """Ticks (r, c), none negative, with ``amount`` (c,) taken off each column, off the largest entries first."""
    if not bool(amount.any()):
        return ticks
    order = ticks.argsort(dim=0, descending=True, stable=True)
    falling = ticks.gather(0, order)
    before = falling.cumsum(0) - falling
    taken = (amount - before).clamp_min(0).minimum(falling)
    return ticks.scatter(0, order, falling - taken)


def _circulation(flow: list[list[int]]) -> list[list[int]]:
    """A flow no larger than this one, of which as much leaves each node as arrives.

    Any flow is a sum of cycles and of paths from nodes that send more than they get to nodes that get more: the paths
    are taken away, and each takes away an edge or a node's excess."""
    c = len(flow)
    flow = [list(row) for row in flow]
    excess = [sum(flow[a]) - sum(row[a] for row in flow) for a in range(c)]
    for _ in range(c * c + 2 * c):
        start = next((a for a in range(c) if excess[a] > 0), None)
        if start is None:
            return flow
        path = _path(flow, excess, start)
        edges = list(pairwise(path))
        amount = min(excess[start], -excess[path[-1]], *(flow[a][b] for a, b in edges))
        for a, b in edges:
            flow[a][b] -= amount
        excess[start] -= amount
        excess[path[-1]] += amount
    return flow


def _path(flow: list[list[int]], excess: list[int], start: int) -> list[int]:
    """A shortest path from ``start`` along positive flows to a node that gets more than it sends."""
    paths, seen = [[start]], {start}
    for path in paths:  # grows as it is gone through
        if excess[path[-1]] < 0:
            return path
        ahead = [b for b, amount in enumerate(flow[path[-1]]) if amount > 0 and b not in seen]
        seen.update(ahead)
        paths.extend([*path, b] for b in ahead)
    raise ArithmeticError("a flow without a path from its sources to its sinks")
