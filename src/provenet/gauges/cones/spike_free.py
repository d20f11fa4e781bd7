"""The cone-nuclear norm of orthogonal rows, behind the one gate they need (CP §3.3).

In the coordinates w = Qu, Q the unit rows, the cone is the orthant: projections are clips, for thousands of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import deadline
from provenet.cones import Table
from provenet.cones.orthant import eigen_work, proven_square, tightened
from provenet.cones.recall import Recall
from provenet.gauges.base import NOTHING, Asked, BoundKind, Bounds, Gauge
from provenet.gauges.cones.nuclear import ConeNuclear
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.variable import Stack
from provenet.vectors import unit

_STEPS = 50  # of the local search in the orthant
_SMALL, _FEW = 32, 3  # rows and outputs up to which the bounds for any cones are affordable too
_EXACT = 1e-9
_RELAXED = 500  # rows up to which the relaxation over the orthant is affordable
_TURNS = 6  # to find what of a pull the rows span
_LAST, _GIVEN = "orthant, last", "orthant, given"  # what is kept of it for the next time


@dataclass(frozen=True)
class SpikeFree(ConeNuclear[Table]):
    """stretch: κ of `gates.spike_free`; upper bounds of the polar are that much larger, so that they hold for neurons
    of every arrangement.  multipliers: what bounds remember of each other; a row and a column a sample, they are the
    same in any basis."""

    stretch: float = 1.0
    multipliers: Recall | None = None

    spike_free = True

    def remembering(self) -> Self:
        return replace(super().remembering(), multipliers=self.multipliers or Recall(1))

    def relaxed(self, outputs: int) -> Gauge:
        """Itself: its bounds are cheap, and stretched."""
        return self

    def polar(self, stack: Stack, enough: float = 0.0) -> Bounds:
        return self.largest(stack, Asked(enough=enough))

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        """A local search below; above the spectral norm, which CP Thm 2 makes tight, a projection for one output, or
        the relaxation over the orthant (CP eq. 20)."""
        rows = self.region.rows
        one = stack.shape[2] == 1
        upper = _projected(rows, stack) if one else NuclearNorm().polar(stack).upper
        lower = torch.stack([_search(rows, G)[0] for G in stack])
        wanted = max(asked.enough / self.stretch, float(lower.max()) * (1 + _EXACT))

        def open_() -> bool:
            return float(upper.max()) > wanted and float(lower.max()) <= asked.lost

        affordable = len(rows) <= _RELAXED and deadline.affords(eigen_work(len(rows)))
        if open_() and not one and (affordable or self._remembered()):
            upper = torch.stack(
                [self._over_orthant(G, float(top), wanted) for G, top in zip(stack, upper, strict=True)]
            )
        if open_() and len(rows) <= _SMALL and stack.shape[2] <= _FEW:
            general = super().polar(stack)
            lower, upper = torch.maximum(lower, general.lower), torch.minimum(upper, general.upper)
        exact = bool((lower >= upper * (1 - _EXACT)).all())
        kind = BoundKind.EXACT if exact else BoundKind.DETERMINISTIC
        return Bounds(torch.minimum(lower, upper), upper * self.stretch, kind)

    def bounded_by(self, G: Tensor, S: Tensor) -> float:
        """The upper bound of the polar of G (p, q) that multipliers S ≥ 0 (n, n) prove: see `_over_orthant`."""
        C, left = _spanned(self.region.rows, G)
        return (self.stretch * proven_square(C, S) ** 0.5 + left) * self.stretch

    def remember(self, S: Tensor, U: Tensor, note: str = _GIVEN) -> None:
        """Multipliers and the U they came with (n, n), for a pull of norm one, that later bounds may begin with."""
        if self.multipliers is not None:
            self.multipliers.write(note, torch.stack([S, U])[None])

    def _remembered(self) -> list[tuple[Tensor, Tensor]]:
        if self.multipliers is None:
            return []
        notes = (self.multipliers.note(name) for name in (_GIVEN, _LAST))
        return [(note[0, 0], note[0, 1]) for note in notes if note is not None]

    def _over_orthant(self, G: Tensor, spectral: float, wanted: float) -> Tensor:
        """With G = QᵀC + E and w = Qu ≥ 0: ‖Gᵀu‖ ≤ ‖Cᵀw‖ + ‖E‖, and ‖w‖ ≤ stretch·‖u‖."""
        C, left = _spanned(self.region.rows, G)
        size = max(float(torch.linalg.matrix_norm(C, 2)), 1e-300)
        goal = max((wanted - left) / (self.stretch * size), 0.0) ** 2
        found = tightened(C / size, goal, self._remembered())
        self.remember(found.S, found.U, _LAST)
        bound = self.stretch * size * found.square**0.5 * (1 + 1e-14) + left
        return G.new_tensor(min(bound, spectral))

    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        u = stack.new_zeros(stack.shape[:2])
        for k, G in enumerate(stack):
            u[k] = _search(self.region.rows, G)[1]
        return u, unit(torch.bmm(stack.mT, u[:, :, None]).squeeze(2))


def _projected(Q: Tensor, stack: Stack) -> Tensor:
    """max |gᵀu| over the cone ≤ ‖±g + Qᵀλ‖ for any λ ≥ 0; λ = (∓Qg)₊ is the best one of orthonormal rows."""
    g = stack[:, :, 0]
    side = g @ Q.T
    bounds = [torch.linalg.vector_norm(s * g + (-s * side).clamp_min(0) @ Q, dim=1) for s in (1.0, -1.0)]
    rounding = (sum(Q.shape) + 8) * torch.finfo(g.dtype).eps * torch.linalg.vector_norm(g, dim=1)
    return torch.maximum(*bounds).add_((1 + len(Q) ** 0.5) * rounding)


def _spanned(Q: Tensor, G: Tensor) -> tuple[Tensor, float]:
    """C (n, q) with G ≈ QᵀC for nearly orthonormal rows Q (n, p), and at least ‖G − QᵀC‖."""
    C = Q @ G
    for _ in range(_TURNS):
        C = C + Q @ (G - Q.T @ C)
    rounding = (sum(Q.shape) + 8) * torch.finfo(G.dtype).eps * len(Q) ** 0.5 * torch.linalg.matrix_norm(C)
    return C, float(torch.linalg.matrix_norm(G - Q.T @ C) + rounding)


def _search(Q: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """A good value of ‖Gᵀu‖ over unit u with Qu ≥ 0, and its u (p,): power steps w ← (HHᵀw)₊ with H = QG."""
    H = Q @ G
    top = torch.linalg.eigh(H.T @ H)[1][:, -1]
    best, where = G.new_zeros(()), Q.sum(0)
    for start in (top, -top, torch.ones_like(top), -torch.ones_like(top)):
        w = unit((H @ start).clamp_min(0))
        for _ in range(_STEPS):
            last, w = w, unit((H @ (H.T @ w)).clamp_min(0))
            if float((w - last).abs().max()) < 1e-12:
                break
        u = unit(Q.T @ w)
        value = torch.linalg.vector_norm(G.T @ u)
        if value > best:
            best, where = value, u
    return best, unit(where)
