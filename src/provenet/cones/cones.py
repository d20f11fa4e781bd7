"""The cones of a problem's arrangements: K_k = (2D_k − I)Φ, one a gate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Table
from provenet.cones.branch import MOST_OUTPUTS, output_rank
from provenet.cones.exact import Faces, faces
from provenet.cones.facets import facets_of
from provenet.cones.pca import cone_pca
from provenet.cones.recall import Recall
from provenet.cones.search import climb, survey
from provenet.cones.values import split
from provenet.vectors import unit

_NOISE = 4.0  # times (p + 4)·eps: what any order of summation may make of a unit row times a vector
_MOVES = 4  # straight off the walls: each may come too close to others
_SAME = 1e-7  # of the largest singular value of unit rows: smaller ones come from a row counted twice
_PUSH_WORK = 1e9  # multiply-adds up to which walls are pushed off straight
_FAR = 1e6  # of a neuron's length: a move to the inside that is longer would leave nothing of it
_TINY = 1e-300


@dataclass(frozen=True)
class Cones(Table):
    """Each field as `Region` and `Table` say; ``doubt`` where the cones are all there are."""

    rows: Tensor
    signs: Tensor
    inside: Tensor
    noise: Tensor | None = None
    doubt: float = 0.0

    @staticmethod
    def of(phi: Tensor, patterns: Tensor, inside: Tensor, noise: Tensor | None = None) -> Cones:
        """From the arrangement matrix (N, p), patterns (P, N) bool, their gate vectors (P, p), and the rounding (N,) of
        Φu for unit vectors u, where it is more than that of p products."""
        norm = torch.linalg.vector_norm(phi, dim=1, keepdim=True)
        alive = norm > 0
        rows = torch.where(alive, phi / norm.clamp_min(torch.finfo(phi.dtype).tiny), 0.0)
        signs = torch.where(patterns | ~alive.T, phi.new_ones(()), -phi.new_ones(()))
        relative = None if noise is None else noise / norm[:, 0].clamp_min(torch.finfo(phi.dtype).tiny)
        return Cones(rows, signs, unit(inside), relative)

    @cached_property
    def faces(self) -> Faces:
        """Facets and rays of every cone, p ≤ 3; they are found once."""
        alive = torch.linalg.vector_norm(self.rows, dim=1) > 0
        return faces(self.rows[alive], self.signs[:, alive], self.inside)

    @cached_property
    def facets(self) -> tuple[Tensor, Tensor]:
        alive = torch.linalg.vector_norm(self.rows, dim=1) > 0
        return facets_of(self.rows[alive], self.signs[:, alive], self.inside)

    def restrict(self, gates: Tensor) -> Cones:
        kept, bounding = self.made("faces"), self.made("facets")
        known: dict[str, Any] = {} if kept is None else {"faces": Faces(*(part[gates] for part in kept))}
        if bounding is not None:
            known["facets"] = tuple(part[gates] for part in bounding)
        if self.recall is not None:
            known["recall"] = self.recall.restrict(gates)
        everyone = torch.equal(gates, self.space.arange(len(self.signs)))  # of millions of rows: not copied
        return self._with(signs=self.signs if everyone else self.signs[gates], inside=self.inside[gates], **known)

    def remembering(self) -> Cones:
        """Where polars are not exact: there are searches.  What remembers already goes on to."""
        if self.rows.shape[1] <= 3 or self.recall is not None:
            return self
        return self._with(recall=Recall(len(self.signs)))

    def within(self, basis: Tensor) -> Cones:
        return Cones(self.rows @ basis, self.signs, unit(self.inside @ basis), self.noise, self.doubt)

    def slack(self, u: Tensor, gate: Tensor) -> Tensor:
        return (u @ self.rows.T).mul_(self.signs[gate])

    def pulled_inside(self, u: Tensor, gate: Tensor) -> Tensor:
        """First straight off the rows it is too close to, which is as short as a move can be; then, where rows are left
        (more than p meet, or a move came too close to others), along the interior point.  Cones may be so narrow that
        the interior point clears their rows by 1e-6 only: along it alone, moves would be a million times longer.
        """
        if len(u) == 0:
            return u
        moved = self._off_walls(u, gate)
        inside = self.inside[gate]
        room = self.slack(inside, gate)
        step = (self._missing(moved, gate, 2.0) / (room - 2 * self._rounding).clamp_min(_TINY)).amax(1)
        far = step > _FAR * torch.linalg.vector_norm(moved, dim=1)  # rounding fills the cone: no neuron fits in
        return torch.where(far[:, None], 0.0, moved + torch.where(far, 0.0, step)[:, None] * inside)

    @property
    def tables(self) -> list[tuple[Tensor, Table]]:
        return [(self.space.arange(len(self.signs)), self)]

    def exact(self, outputs: int) -> bool:
        """For one output, or in up to three dimensions."""
        return outputs == 1 or self.rows.shape[1] <= 3

    def peaks(self, G: Tensor, above: float = 0.0) -> Tensor:
        if self.exact(G.shape[2]):
            return cone_pca(self, G, above).u
        return (survey(self, G, above) if output_rank(G) <= MOST_OUTPUTS else climb(self, G)).u

    def split(self, u: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
        """min ‖a‖ + ‖b‖; where u, or −u, is in the cone already, it is one of them."""
        _, _, a, b = split(self.restrict(gate), u)
        slack = self.slack(u, gate)
        inside, opposite = (slack >= 0).all(1, keepdim=True), (slack <= 0).all(1, keepdim=True)
        zero = torch.zeros_like(a)
        a = torch.where(inside, u, torch.where(opposite, zero, a))
        return a, torch.where(inside, zero, torch.where(opposite, -u, b))

    def _off_walls(self, u: Tensor, gate: Tensor) -> Tensor:
        """u moved by the shortest steps off the rows it is too close to."""
        close = self.space.zeros(len(u), len(self.rows), dtype=torch.bool)
        for _ in range(_MOVES):
            missing = self._missing(u, gate, 3.0)
            if not bool((missing > 0).any()):
                break
            close |= missing > 0
            most = min(int(close.sum(1).max()), u.shape[1])
            work = len(u) * most**2 * u.shape[1]
            if work > _PUSH_WORK or not deadline.affords(6 * work):
                break
            order = torch.topk(torch.where(close, 1 + missing, 0.0), most, dim=1).indices
            used = torch.gather(self.signs[gate] * close, 1, order)
            walls = self.rows[order] * used[:, :, None]  # (N', most, p)
            push = torch.linalg.pinv(walls, rtol=_SAME) @ torch.gather(missing, 1, order)[:, :, None]
            u = u + push.squeeze(2)
        return u

    def _missing(self, u: Tensor, gate: Tensor, times: float) -> Tensor:
        """What the slacks (N', N) lack of so many times their rounding; nothing for u = 0."""
        size = torch.linalg.vector_norm(u, dim=1, keepdim=True)
        return (times * size * self._rounding - self.slack(u, gate)).clamp_min(0).mul_(size > 0)

    @property
    def _rounding(self) -> Tensor:
        """What any order of summation may do to a unit vector's slacks, (N,); nothing to rows of zeros."""
        own = _NOISE * (self.rows.shape[1] + 4) * torch.finfo(self.rows.dtype).eps
        alive = torch.linalg.vector_norm(self.rows, dim=1) > 0
        return alive * (own + (torch.zeros_like(self.rows[:, 0]) if self.noise is None else self.noise))
