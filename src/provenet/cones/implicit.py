"""Cones whose rows are too many to be written down: applied through the block, picked one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.cones.base import Region, Table
from provenet.cones.cones import Cones
from provenet.cones.narrow import Axes, axes_of, narrow_bound
from provenet.cones.projection import in_spans
from provenet.cones.search import climb
from provenet.cones.signs import PickedSigns

_TABLE_NUMBERS = 2**22  # of rows and signs that are written down to bound the polar


@dataclass(frozen=True)
class ImplicitRows:
    """Φ (N, p) with rows of unit length, or zero.

    apply: u (B, p) and some rows in a row ↦ uΦᵀ of them (B, span), before rows are scaled.  pick: index (…) ↦ Φ[index]
    (…, p), likewise.  noise: u ↦ what rounding may do to ``apply``.  length (N,): of the rows.  each: rows of a
    sample, which follow one another; the rows of all samples do so once for each of the ``groups``.  parts: the rows of
    a sample fall into so many, one after the other, each with columns of its own.  basis (p, r): u in fewer
    coordinates, None: all.
    """

    apply: Callable[[Tensor, slice], Tensor]
    pick: Callable[[Tensor], Tensor]
    noise: Callable[[Tensor, slice], Tensor]
    length: Tensor
    p: int
    each: int
    groups: int = 1
    parts: int = 1
    basis: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.length), self.p if self.basis is None else self.basis.shape[1]

    @property
    def off(self) -> float:
        """By how much, of its length, what `take` gives may be another row than the one that is applied: an entry is a
        product of few numbers, or, in fewer coordinates, a sum of p."""
        entry = (16 + (1 if self.basis is None else self.p)) * torch.finfo(torch.float64).eps
        return entry * (self.shape[1] / self.parts) ** 0.5

    def spans(self, vectors: int) -> list[slice]:
        """All rows, whole samples of one group at a time."""
        count = len(self.length) // self.groups
        samples = batches.slices(count // self.each, self.each * max(vectors, 1), batches.BATCH)
        starts = [group * count for group in range(self.groups)]
        return [slice(a + i.start * self.each, a + i.stop * self.each) for a in starts for i in samples]

    def sides(self, u: Tensor, span: slice) -> Tensor:
        return self._scaled(self.apply(self._whole(u), span), span)

    def rounding(self, u: Tensor, span: slice) -> Tensor:
        """What it may do to `sides`."""
        return self._scaled(self.noise(self._whole(u), span), span)

    def take(self, index: Tensor) -> Tensor:
        length = self.length[index]
        rows = self.pick(index) / torch.where(length > 0, length, torch.inf).unsqueeze(-1)
        return rows if self.basis is None else rows @ self.basis

    def within(self, basis: Tensor) -> ImplicitRows:
        return replace(self, basis=basis if self.basis is None else self.basis @ basis)

    def _whole(self, u: Tensor) -> Tensor:
        return u if self.basis is None else u @ self.basis.T

    def _scaled(self, values: Tensor, span: slice) -> Tensor:
        length = self.length[span]
        return values / torch.where(length > 0, length, torch.inf)


@dataclass(frozen=True)
class ImplicitCones(Region):
    """What `Cones` is for a table.  signs (P, N): ±1, zero for rows that do not bound a cone; inside (P, p)."""

    rows: ImplicitRows
    signs: PickedSigns
    inside: Tensor
    doubt: float = 0.0
    known: dict[int, Axes | None] = field(default_factory=dict, compare=False, repr=False)  # by gate of the table

    def restrict(self, gates: Tensor) -> ImplicitCones:
        return replace(self, signs=self.signs[gates], inside=self.inside[gates])

    def within(self, basis: Tensor) -> ImplicitCones:
        return replace(self, rows=self.rows.within(basis), inside=self.inside @ basis, known={})

    @cached_property
    def tables(self) -> list[tuple[Tensor, Table]]:
        N, p = self.rows.shape
        if N * p > _TABLE_NUMBERS or len(self.signs) * N > _TABLE_NUMBERS:
            return []
        every = self.signs.within(slice(0, N))
        kinds, kind = torch.unique(every != 0, dim=0, return_inverse=True)
        out: list[tuple[Tensor, Table]] = []
        for k, bounding in enumerate(kinds):
            gates = torch.nonzero(kind == k).flatten()
            rows = torch.nonzero(bounding & (self.rows.length > 0)).flatten()
            if rows.numel():
                signs = every[gates][:, rows].to(self.inside.dtype)
                out.append((gates, Cones(self.rows.take(rows), signs, self.inside[gates])))
        return out

    def peaks(self, G: Tensor, above: float = 0.0) -> Tensor:
        return climb(self, G).u

    def bounded(self, G: Tensor) -> Tensor:
        """Upper bounds (P,) of max ‖G_kᵀu‖ by how narrow the cones are; infinite where that says nothing, or takes too
        long."""
        gates = self.signs.gate.tolist()
        missing = [i for i, gate in enumerate(gates) if gate not in self.known]
        new = torch.tensor(missing, dtype=torch.long, device=G.device)
        try:
            if missing:
                rows = self.rows
                found = axes_of(rows, self.signs[new], self.inside[new], rows.parts, rows.each, rows.off)
                self.known.update({gates[i]: axes for i, axes in zip(missing, found, strict=True)})
            axes = [self.known[gate] for gate in gates]
            some = [narrow_bound(one, G[i]) if one else torch.inf for i, one in deadline.paced(list(enumerate(axes)))]
        except deadline.TooLong:
            return G.new_full((len(G),), torch.inf)
        return G.new_tensor(some)

    def slack(self, u: Tensor, gate: Tensor) -> Tensor:
        signs = self.signs[gate]
        return torch.cat([values.mul_(signs.within(span)) for span, values in in_spans(self.rows, u)], dim=1)

    def pulled_inside(self, u: Tensor, gate: Tensor) -> Tensor:
        """u moved along the interior points until K_k u ≥ 0 in any order of summation; where it is so already, u.

        Where there is no time to tell, u: which rows open of those that it touches, rounding may then decide."""
        if len(u) == 0:
            return u
        gates, own = torch.unique(gate, return_inverse=True)
        signs, inside = self.signs[gates], self.inside[gates]
        step = u.new_zeros(len(u))
        try:
            for span in deadline.paced(self.rows.spans(2 * len(u))):
                side = signs.within(span)
                bounds = side[own] != 0
                lacking = 2 * self.rows.rounding(u, span) - self.rows.sides(u, span).mul_(side[own])
                few = torch.nonzero(((lacking > 0) & bounds).any(0)).flatten()
                if few.numel():
                    room = self.rows.sides(inside, span).mul_(side) - 2 * self.rows.rounding(inside, span)
                    room = room[:, few].clamp_min(torch.finfo(u.dtype).tiny)[own]
                    ratio = lacking[:, few].clamp_min(0) / room
                    step = torch.maximum(step, torch.where(bounds[:, few], ratio, 0.0).amax(1))
        except deadline.TooLong:
            return u
        return u + step[:, None] * self.inside[gate]
