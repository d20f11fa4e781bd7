"""Cones whose rows are too many to be written down: applied through the block, picked one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from provenet import batches
from provenet.cones.base import Region, Table
from provenet.cones.cones import Cones
from provenet.cones.projection import sides
from provenet.cones.search import climb

_TABLE_NUMBERS = 2**22  # of rows and signs that are written down to bound the polar


@dataclass(frozen=True)
class ImplicitRows:
    """Φ (N, p) with rows of unit length, or zero.

    apply: u (B, p) ↦ uΦᵀ (B, N), before rows are scaled.  pick: index (…) ↦ Φ[index] (…, p), likewise.  noise: u ↦ what
    rounding may do to ``apply`` (B, N).  length (N,): of the rows.  basis (p, r): u in fewer coordinates, None: all.
    """

    apply: Callable[[Tensor], Tensor]
    pick: Callable[[Tensor], Tensor]
    noise: Callable[[Tensor], Tensor]
    length: Tensor
    p: int
    basis: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.length), self.p if self.basis is None else self.basis.shape[1]

    def sides(self, u: Tensor) -> Tensor:
        return self._scaled(self.apply(self._whole(u)))

    def rounding(self, u: Tensor) -> Tensor:
        """What it may do to `sides`, (B, N)."""
        return self._scaled(self.noise(self._whole(u)))

    def take(self, index: Tensor) -> Tensor:
        rows = self.pick(index) / self._divisor[index].unsqueeze(-1)
        return rows if self.basis is None else rows @ self.basis

    def within(self, basis: Tensor) -> ImplicitRows:
        return replace(self, basis=basis if self.basis is None else self.basis @ basis)

    def _whole(self, u: Tensor) -> Tensor:
        return u if self.basis is None else u @ self.basis.T

    def _scaled(self, values: Tensor) -> Tensor:
        return values / self._divisor

    @property
    def _divisor(self) -> Tensor:
        return torch.where(self.length > 0, self.length, torch.inf)


@dataclass(frozen=True)
class ImplicitCones(Region):
    """What `Cones` is for a table.  signs (P, N): ±1, zero for rows that do not bound a cone; inside (P, p)."""

    rows: ImplicitRows
    signs: Tensor
    inside: Tensor
    doubt: float = 0.0

    def restrict(self, gates: Tensor) -> ImplicitCones:
        return replace(self, signs=self.signs[gates], inside=self.inside[gates])

    def within(self, basis: Tensor) -> ImplicitCones:
        return replace(self, rows=self.rows.within(basis), inside=self.inside @ basis)

    @cached_property
    def tables(self) -> list[tuple[Tensor, Table]]:
        N, p = self.rows.shape
        if N * p > _TABLE_NUMBERS or len(self.signs) * N > _TABLE_NUMBERS:
            return []
        kinds, kind = torch.unique(self.signs != 0, dim=0, return_inverse=True)
        out: list[tuple[Tensor, Table]] = []
        for k, bounding in enumerate(kinds):
            gates = torch.nonzero(kind == k).flatten()
            rows = torch.nonzero(bounding & (self.rows.length > 0)).flatten()
            if rows.numel():
                signs = self.signs[gates][:, rows].to(self.inside.dtype)
                out.append((gates, Cones(self.rows.take(rows), signs, self.inside[gates])))
        return out

    def peaks(self, G: Tensor, above: float = 0.0) -> Tensor:
        return climb(self, G).u

    def slack(self, u: Tensor, gate: Tensor) -> Tensor:
        return sides(self.rows, u).mul_(self.signs[gate])

    def pulled_inside(self, u: Tensor, gate: Tensor) -> Tensor:
        """u moved along the interior points until K_k u ≥ 0 in any order of summation; where it is so already, u."""
        if len(u) == 0:
            return u
        size = batches.count(len(self.rows.length), batches.BLOCK)
        return torch.cat([self._pulled(*part) for part in zip(u.split(size), gate.split(size), strict=True)])

    def _pulled(self, u: Tensor, gate: Tensor) -> Tensor:
        inside = self.inside[gate]
        bounds = (self.signs[gate] != 0) & (self.rows.length > 0)
        missing = (2 * self.rows.rounding(u) - self.slack(u, gate)).clamp_min(0)
        room = (self.slack(inside, gate) - 2 * self.rows.rounding(inside)).clamp_min(torch.finfo(u.dtype).tiny)
        step = torch.where(bounds, missing / room, 0.0).amax(1)
        return u + step[:, None] * inside
