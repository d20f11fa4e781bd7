"""Projections onto many cones {u : s_kr Φ_r u ≥ 0 for all r} at once, all with the rows of one Φ.

Dual active sets (Lawson and Hanson 1974): the projection of g is u = g + Σ_{r ∈ A} λ_r s_r Φ_r with λ ≥ 0 on a few
tight rows A, at most p of them.  A step of all problems is one product with Φ, to find the row each violates most, and
one batch of small systems; in many dimensions a guess of the tight rows comes first, and rows that fall into parts are
projected on part by part.  Whatever its accuracy, λ ≥ 0
gives ‖g + Kᵀλ‖ ≥ ‖Proj_K g‖: multipliers always certify.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from provenet import batches, deadline
from provenet.cones.guess import tight_rows
from provenet.cones.parts import Part, parts_of
from provenet.cones.signs import PickedSigns, Signs, at, some, within

_VIOLATED = 1e-12  # of ‖g‖: a unit row may be violated by so little
_OFF = 1e-9  # and where one is by more, the rows that a search began with were not for it


class Rows(Protocol):
    """Rows Φ (N, p) that are not written down: what a projection asks of them."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def spans(self, vectors: int) -> list[slice]:
        """All rows, as many at a time as are applied to so many vectors."""

    def sides(self, u: Tensor, span: slice) -> Tensor:
        """uΦᵀ of some rows, (B, span) for u (B, p); freshly allocated."""

    def take(self, index: Tensor) -> Tensor:
        """Φ[index], (…, p)."""


def in_spans(rows: Tensor | Rows, u: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """uΦᵀ (B, N), some rows at a time; raises `deadline.TooLong` where they are not written down, and there is no time
    for all of them."""
    if isinstance(rows, Tensor):
        for span in batches.slices(len(rows), len(u), batches.TILE):
            yield span, u @ rows[span].T
        return
    for span in deadline.paced(rows.spans(len(u))):
        yield span, rows.sides(u, span)


def least(rows: Tensor | Rows, signs: Signs, u: Tensor) -> tuple[Tensor, Tensor]:
    """The least of s_r Φ_r u over all rows, (B,), and where it is (B,); minus infinity where no time is left."""
    worst, where = u.new_full((len(u),), torch.inf), u.new_zeros(len(u), dtype=torch.long)
    try:
        for span, values in in_spans(rows, u):
            found, row = values.mul_(within(signs, span)).min(dim=1)
            lower = found < worst
            worst, where = torch.minimum(found, worst), torch.where(lower, row + span.start, where)  # NaN stays
    except deadline.TooLong:
        return torch.full_like(worst, -torch.inf), where
    return worst, where


def touched(rows: Tensor | Rows, signs: Signs, u: Tensor, near: Tensor) -> Signs:
    """The signs of rows with s_r Φ_r u ≤ near (B, 1), and zero for all others."""
    both = ((within(signs, span), values) for span, values in in_spans(rows, u))
    found = torch.cat([part * (values * part <= near) for part, values in both], dim=1)
    return found if isinstance(signs, Tensor) else PickedSigns.of(found)


def take(rows: Tensor | Rows, index: Tensor) -> Tensor:
    return rows[index] if isinstance(rows, Tensor) else rows.take(index)


@dataclass(frozen=True)
class Projection:
    """point (B, p): g + Kᵀλ.  rows (B, m) and multipliers (B, m) ≥ 0 of the tight rows, of unit length; zeros fill up.
    signs (B, m): s of those rows.  violation (B,): the largest −(Ku)_r over unit rows, zero where feasible."""

    point: Tensor
    rows: Tensor
    multipliers: Tensor
    signs: Tensor
    violation: Tensor

    def select(self, which: Tensor) -> Projection:
        return Projection(*(part[which] for part in vars(self).values()))

    def replaced(self, which: Tensor, others: Projection) -> Projection:
        """With others in place of some, where they are nearer."""
        nearer = others.violation < self.violation[which]
        at, new = which[nearer], others.select(nearer)
        parts = zip(vars(self).values(), vars(new).values(), strict=True)
        return Projection(*(own.index_copy(0, at, other) for own, other in parts))

    @staticmethod
    def of_all(found: list[Projection]) -> Projection:
        """One after the other, of one width."""
        return Projection(*(torch.cat(parts) for parts in zip(*(vars(one).values() for one in found), strict=True)))


class Warm(NamedTuple):
    """Rows (B, m) that may be tight, and their multipliers (B, m) ≥ 0; zeros fill up."""

    rows: Tensor
    multipliers: Tensor


@dataclass
class _Active:
    """The tight rows of each problem, packed to the left: row (B, m), lam (B, m), count (B,)."""

    row: Tensor
    lam: Tensor
    count: Tensor

    @staticmethod
    def empty(like: Tensor, width: int) -> _Active:
        B = len(like)
        return _Active(
            like.new_zeros(B, width, dtype=torch.long), like.new_zeros(B, width), like.new_zeros(B, dtype=torch.long)
        )


def project(
    unit_rows: Tensor | Rows,
    signs: Signs,
    g: Tensor,
    start: Warm | Projection | None = None,
    enough: float = 0.0,
) -> Projection:
    """The projection of g_k (B, p) on cone k, for rows Φ (N, p) of unit length, or zero, and signs ±1 (B, N).

    A sign of zero: that row does not bound that cone.

    ``start``: an earlier projection on the same cones, of nearby points.  ``enough``: a point g + Kᵀλ no longer than
    this is taken as it is; the projection is shorter still.  A deadline ends the search: ``violation`` then tells that
    points are outside, and multipliers still certify.
    """
    guess = None
    if isinstance(unit_rows, Tensor) and isinstance(signs, Tensor):
        parts = parts_of(unit_rows)
        if parts is not None:
            return _by_parts(parts, unit_rows.shape[0], signs, g, start)
        guess = None if start is not None else tight_rows(unit_rows, signs, g, enough)
    active = _Active.empty(g, min(g.shape[1], unit_rows.shape[0]) + 1)
    if start is not None:
        _resume(active, start.rows, start.multipliers)
    elif guess is not None:
        _resume(active, *guess)
    begun = bool(active.count.any())
    found = _searched(unit_rows, signs, g, active, enough)
    if begun:
        off = found.violation > _OFF * torch.linalg.vector_norm(g, dim=1)
        again = torch.nonzero(off & (torch.linalg.vector_norm(found.point, dim=1) > enough)).flatten()
        if again.numel() and not deadline.over():
            nothing = _Active.empty(g[again], active.row.shape[1])
            found = found.replaced(again, _searched(unit_rows, signs[again], g[again], nothing, enough))
    return found


def _by_parts(parts: list[Part], count: int, signs: Tensor, g: Tensor, start: Warm | Projection | None) -> Projection:
    """The projection on a product of cones; copies of one table are one batch."""
    point, found, worst = g.clone(), [], g.new_zeros(len(g))
    for part in parts:
        (K, N), B = part.rows.shape, len(g)
        begun = None if start is None else _own(part, count, start)
        one = project(part.table, signs[:, part.rows].flatten(0, 1), g[:, part.columns].flatten(0, 1), begun)
        point[:, part.columns] = one.point.view(B, *part.columns.shape)
        rows = torch.gather(part.rows.expand(B, K, N).reshape(B * K, N), 1, one.rows)
        found.append([x.reshape(B, K * x.shape[1]) for x in (rows, one.multipliers, one.signs)])
        worst = torch.maximum(worst, one.violation.view(B, K).amax(1))
    row, lam, used = (torch.cat(of_all, 1) for of_all in zip(*found, strict=True))
    tight = torch.argsort((lam > 0).to(torch.uint8), dim=1, descending=True, stable=True)
    tight = tight[:, : min(g.shape[1], count) + 1]  # as wide as that of all rows at once
    room = (0, min(g.shape[1], count) + 1 - tight.shape[1])
    row, lam, used = (pad(torch.gather(x, 1, tight), room) for x in (row, lam, used))
    return Projection(point, row, lam, used, worst)


def _own(part: Part, count: int, start: Warm | Projection) -> Warm:
    """Of rows (B, m) and their multipliers those of each copy, (B·K, m), in the numbers of its own table."""
    K, N = part.rows.shape
    place = start.rows.new_full((K, count), -1)
    place.scatter_(1, part.rows, torch.arange(N, device=place.device).expand(K, N))
    local = place[:, start.rows].transpose(0, 1)  # (B, K, m)
    lam = torch.where(local >= 0, start.multipliers[:, None], 0.0)
    return Warm(local.clamp_min(0).flatten(0, 1), lam.flatten(0, 1))


def _searched(unit_rows: Tensor | Rows, signs: Signs, g: Tensor, active: _Active, enough: float) -> Projection:
    """From the rows that are ``active``.  Some that depend on others, as rows of whole numbers often do, may fill it up
    for good; from none on that does not happen: a row that joins is violated where the others are met."""
    B, p = g.shape
    width = active.row.shape[1]
    size, everyone = torch.linalg.vector_norm(g, dim=1), torch.arange(B, device=g.device)
    u = _settle(unit_rows, signs, g, active, everyone)
    open_ = everyone
    best, lowest = g.new_full((B,), float("inf")), g.new_full((B,), -float("inf"))
    for _ in range(8 * (p + 8)):
        worst, row = least(unit_rows, some(signs, open_), u[open_])
        lowest[open_] = worst
        length = torch.linalg.vector_norm(u[open_], dim=1)
        shrinking = length < best[open_] * (1 - 1e-15)  # the dual strictly falls, or rounding has the word
        best[open_] = torch.minimum(best[open_], length)
        more = (worst < -_VIOLATED * size[open_]) & shrinking & (active.count[open_] < width) & (length > enough)
        open_, row = open_[more], row[more]
        if open_.numel() == 0 or deadline.over():
            break
        active.row[open_, active.count[open_]] = row
        active.lam[open_, active.count[open_]] = 0.0
        active.count[open_] += 1
        u[open_] = _settle(unit_rows, signs, g, active, open_)
    else:
        lowest[open_] = least(unit_rows, some(signs, open_), u[open_])[0]
    return Projection(u, active.row, active.lam, at(signs, everyone, active.row), (-lowest).clamp_min(0))


def _resume(active: _Active, rows: Tensor, multipliers: Tensor) -> None:
    width = active.row.shape[1]
    order = torch.argsort((multipliers > 0).to(torch.uint8), dim=1, descending=True, stable=True)[:, :width]
    active.row[:, : order.shape[1]] = torch.gather(rows, 1, order)
    active.lam[:, : order.shape[1]] = torch.gather(multipliers, 1, order)
    active.count[:] = (active.lam > 0).sum(1)


def _settle(unit_rows: Tensor | Rows, signs: Signs, g: Tensor, active: _Active, which: Tensor) -> Tensor:
    """Least squares on the tight rows, dropping those whose multiplier would turn negative; the points (which, p).

    A deadline leaves multipliers on the way there, none of them negative."""
    most = int(active.count[which].max()) if which.numel() else 0
    parts = which.split(batches.count(most * g.shape[1], batches.BLOCK))
    return torch.cat([_settled(unit_rows, signs, g, active, some) for some in parts])


def _settled(unit_rows: Tensor | Rows, signs: Signs, g: Tensor, active: _Active, which: Tensor) -> Tensor:
    """`_settle` of as many as fit."""
    many = max(int(active.count[which].max()), 1) if which.numel() else 1
    row, lam = active.row[which, :many], active.lam[which, :many]
    used = torch.arange(many, device=g.device) < active.count[which, None]
    K = (take(unit_rows, row) * at(signs, which, row)[:, :, None]).mul_(used[:, :, None])
    gram, pull = torch.bmm(K, K.mT), torch.bmm(K, g[which][:, :, None]).squeeze(2)
    left = torch.arange(len(which), device=g.device)
    for _ in range(active.row.shape[1] + 8):
        mine = used[left]
        system = gram[left].mul_(mine[:, :, None] & mine[:, None, :])  # rows that were dropped are as if not there
        system.diagonal(dim1=1, dim2=2).add_((~mine).to(g.dtype) + 1e-14)
        wanted = torch.linalg.solve(system, -(pull[left] * mine)[:, :, None]).squeeze(2).mul_(mine)
        bad = mine & (wanted <= 0)
        fine = ~bad.any(1)
        lam[left[fine]] = wanted[fine]
        left, wanted, bad = left[~fine], wanted[~fine], bad[~fine]
        if left.numel() == 0 or deadline.over():
            break
        old = lam[left]
        ratio = torch.where(bad, old / (old - wanted).clamp_min(1e-300), torch.inf)
        step = ratio.amin(1, keepdim=True).clamp(0, 1)
        moved = old + step * (wanted - old)
        used[left] &= ~(bad & (ratio <= step)) & (moved > 0)
        lam[left] = moved * used[left]
    lam = lam * used
    order = torch.argsort(used.to(torch.uint8), dim=1, descending=True, stable=True)
    active.row[which, :many] = torch.gather(row, 1, order)
    active.lam[which] = pad(torch.gather(lam, 1, order), (0, active.lam.shape[1] - many))
    active.count[which] = used.sum(1)
    return g[which] + torch.bmm(lam[:, None, :], K).squeeze(1)
