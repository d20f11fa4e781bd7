"""Dual points whose columns sum to zero exactly: what an intercept without penalty asks of them.

No rounding error is left to be bounded.  Entries are rounded towards zero to whole numbers of ticks, a power of two
each, so few that sums of them are exact; what a column's sum misses is then taken off, tick by tick.  Rounding and
taking off shrink entries, which keeps them in the domain of the conjugate.

Points come in pieces, one a shard of their samples (`ranks.Whole`: one piece, of all).  Sums of ticks do not round, so
it does not matter who adds them; what is taken off is taken off the first shards that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.losses.flows import circulation
from provenet.ranks import Whole
from provenet.vectors import times_power_of_two

_MOST_BITS = 53  # of a float64
_SUM_BITS = 62  # of sums of ticks
_LEAST = -900  # exponent of the largest entry below which all are taken for zero
_INSIDE = 2.0**-36  # how far mixtures are drawn to the dual point of the zero network


def is_balanced(*duals: Tensor, shards: Whole | None = None) -> bool:
    """Whether each column of Θ (…, c) sums to zero, with no rounding; False where that cannot be told."""
    shards = shards or Whole(1)
    rows = [dual.reshape(-1, dual.shape[-1]).to(torch.float64) for dual in duals]
    if shards.largest(float(not all(bool(torch.isfinite(part).all()) for part in rows))):
        return False
    grid = _Grid.of(rows, rows, shards)
    scaled = [grid.scaled(part) for part in rows]
    ticks = [part.round() for part in scaled]
    off = any(bool((one != other).any()) for one, other in zip(ticks, scaled, strict=True))
    return not shards.largest(float(off)) and not bool(shards.add(part.to(torch.int64).sum(0) for part in ticks).any())


def balanced_boxes(duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
    """Where each entry may shrink on its own: of each column the larger side, positive or negative, does."""
    rows = [dual.reshape(-1, dual.shape[-1]) for dual in duals]
    above = shards.add(part.clamp_min(0).sum(0) for part in rows)
    below = shards.add(-part.clamp_max(0).sum(0) for part in rows)
    least = torch.minimum(above, below)
    up, down = _share(least, above), _share(least, below)
    rows = [part * torch.where(part > 0, up, down) for part in rows]
    grid = _Grid.of(rows, rows, shards)
    ticks = [grid.ticks(part) for part in rows]
    excess = shards.add(part.sum(0) for part in ticks)
    higher = _less([part.clamp_min(0) for part in ticks], excess.clamp_min(0), shards)
    lower = _less([(-part).clamp_min(0) for part in ticks], (-excess).clamp_min(0), shards)
    return [grid.floats(a - b, like) for a, b, like in zip(higher, lower, duals, strict=True)]


def balanced_flows(duals: Sequence[Tensor], targets: Sequence[Tensor], shards: Whole) -> list[Tensor]:
    """For labels, one-hot targets (…, c): Θ_i moves probability from the label of row i to other classes, and what
    leaves a class must be what arrives there.  What is too much is taken back along paths between classes."""
    c = duals[0].shape[-1]
    labels = [target.reshape(-1, c) for target in targets]
    moved = [dual.reshape(-1, c).clamp_min(0) * (1 - y) for dual, y in zip(duals, labels, strict=True)]
    grid = _Grid.of([part.sum(1, keepdim=True) for part in moved], moved, shards)
    ticks, label = [grid.ticks(part) for part in moved], [y.argmax(1) for y in labels]
    flows = [part.new_zeros(c, c).index_add_(0, own, part) for part, own in zip(ticks, label, strict=True)]
    flow = shards.add(part.clone() for part in flows)
    excess = (flow - flow.new_tensor(circulation(flow.tolist()))).clamp_min(0)
    if bool(excess.any()):
        for part, own, much in zip(ticks, label, _dealt(excess, flows, shards), strict=True):
            for source in torch.nonzero(much.any(1)).flatten().tolist():
                members = torch.nonzero(own == source).flatten()
                part[members] = _off_largest(part[members], much[source])
    closed = (part - y.to(torch.int64) * part.sum(1, keepdim=True) for part, y in zip(ticks, labels, strict=True))
    return [grid.floats(part, like) for part, like in zip(closed, duals, strict=True)]


def balanced_mixtures(
    duals: Sequence[Tensor], targets: Sequence[Tensor], weights: Sequence[Tensor], shards: Whole
) -> list[Tensor]:
    """For targets (…, c) on the simplex: a hair towards the zero network's Θ, w(mean − y); what is left of a column's
    sum is moved to or from the commonest class, in the row where that which shrinks has most probability.  Classes of
    which targets have nothing, or less than such moves, take no part."""
    c = duals[0].shape[-1]
    rows, ys = ([part.reshape(-1, c) for part in parts] for parts in (duals, targets))
    ws = [w.expand(*y.shape[:-1], 1).reshape(-1, 1) for w, y in zip(weights, targets, strict=True)]
    total = shards.add(w.sum() for w in ws)
    mean = shards.add((w * y).sum(0) for w, y in zip(ws, ys, strict=True)) / total
    off = shards.add(part.sum(0) for part in rows) / total
    inner = [
        torch.maximum(torch.lerp(part - w * off, w * (mean - y), _INSIDE), -w * y)
        for part, w, y in zip(rows, ws, ys, strict=True)
    ]
    grid = _Grid.of([part.abs().sum(1, keepdim=True) for part in inner], rows, shards)
    room = [grid.scaled(w * (y + part / w)) for part, w, y in zip(inner, ws, ys, strict=True)]  # in ticks
    most = shards.listed(part.amax(0) for part in room)  # (shards, c)
    common = (mean > 0) & (most.amax(0) > 4 * grid.entries)
    ticks = [grid.ticks(torch.where(common, part, 0.0)) for part in inner]
    for part, free in zip(ticks, room, strict=True):  # the likeliest class has room on both sides
        part.scatter_add_(1, free.argmax(1, keepdim=True), -part.sum(1, keepdim=True))
    richest, commonest = most.argmax(0).tolist(), int(mean.argmax())
    for a, excess in enumerate(shards.add(part.sum(0) for part in ticks).tolist()):
        shrinks = a if excess > 0 else commonest
        if a != commonest and richest[shrinks] in shards.own:
            own = richest[shrinks] - shards.own.start
            row = room[own][:, shrinks].argmax()
            ticks[own][row, a] -= excess
            ticks[own][row, commonest] += excess
    return [grid.floats(part, like) for part, like in zip(ticks, duals, strict=True)]


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole.clamp_min(torch.finfo(whole.dtype).tiny), 0.0)


@dataclass(frozen=True)
class _Grid:
    """Of ticks 2^(exponent − bits), a column each or one for all; entries: how many numbers lie on it."""

    exponent: Tensor
    bits: int
    entries: int

    @staticmethod
    def of(sizes: Sequence[Tensor], rows: Sequence[Tensor], shards: Whole) -> _Grid:
        """For rows (r, c) of which none is larger than the sizes (r, c) or (r, 1)."""
        largest = torch.stack([size.abs().amax(0) for size in sizes]).amax(0)
        entries = int(shards.add(torch.tensor(part.numel(), device="cpu") for part in rows))
        bits = min(_MOST_BITS, _SUM_BITS - entries.bit_length())
        return _Grid(torch.frexp(shards.highest(largest)).exponent, bits, entries)

    def scaled(self, rows: Tensor) -> Tensor:
        return times_power_of_two(rows, self.bits - self.exponent)

    def ticks(self, rows: Tensor) -> Tensor:
        """Rounded towards zero; none where entries are so small that a tick would be no number."""
        return torch.where(self.exponent > _LEAST, self.scaled(rows).trunc().to(torch.int64), 0)

    def floats(self, ticks: Tensor, like: Tensor) -> Tensor:
        return times_power_of_two(ticks.to(like.dtype), self.exponent - self.bits).view_as(like)


def _less(ticks: list[Tensor], amount: Tensor, shards: Whole) -> list[Tensor]:
    """Ticks (r, c), none negative, with ``amount`` (c,) taken off each column of all shards."""
    if not bool(amount.any()):
        return ticks
    shares = _dealt(amount, [part.sum(0) for part in ticks], shards)
    return [_off_largest(part, share) for part, share in zip(ticks, shares, strict=True)]


def _dealt(amount: Tensor, held: list[Tensor], shards: Whole) -> Tensor:
    """Of an amount what each of this process's shards gives, of what it holds; the first ones give first."""
    there = shards.listed(held)
    before = there.cumsum(0) - there
    return (amount - before).clamp_min(0).minimum(there)[shards.own.start : shards.own.stop]


def _off_largest(ticks: Tensor, amount: Tensor) -> Tensor:
    """Ticks (r, c) with an amount (c,) taken off each column, off the largest entries first."""
    order = ticks.argsort(dim=0, descending=True, stable=True)
    falling = ticks.gather(0, order)
    before = falling.cumsum(0) - falling
    taken = (amount - before).clamp_min(0).minimum(falling)
    return ticks.scatter(0, order, falling - taken)
