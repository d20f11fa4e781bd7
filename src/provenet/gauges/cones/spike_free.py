"""The cone-nuclear norm of orthogonal rows, behind the one gate they need (CP §3.3).

In the coordinates w = Qu, Q the unit rows, the cone is the orthant: projections are clips, for thousands of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.cones import Table
from provenet.gauges.base import NOTHING, Asked, BoundKind, Bounds, Gauge
from provenet.gauges.cones.nuclear import ConeNuclear
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.variable import Stack
from provenet.vectors import unit

_STEPS = 50  # of the local search in the orthant
_SMALL = 32  # rows up to which the bounds for any cones are affordable too
_EXACT = 1e-9


@dataclass(frozen=True)
class SpikeFree(ConeNuclear[Table]):
    """stretch: κ of `gates.spike_free`; upper bounds of the polar are that much larger, so that they hold for neurons
    of every arrangement."""

    stretch: float = 1.0

    spike_free = True

    def relaxed(self, outputs: int) -> Gauge:
        """Itself: its bounds are cheap, and stretched."""
        return self

    def polar(self, stack: Stack, enough: float = 0.0) -> Bounds:
        """A local search below; above the spectral norm, which CP Thm 2 makes tight, or a projection for one output."""
        rows = self.region.rows
        upper = _projected(rows, stack) if stack.shape[2] == 1 else NuclearNorm().polar(stack).upper
        lower = torch.stack([_search(rows, G)[0] for G in stack])
        kind = BoundKind.EXACT if bool((lower >= upper * (1 - _EXACT)).all()) else BoundKind.DETERMINISTIC
        if kind != BoundKind.EXACT and len(rows) <= _SMALL:
            general = super().polar(stack)
            lower, upper = torch.maximum(lower, general.lower), torch.minimum(upper, general.upper)
            kind = general.kind
        return Bounds(torch.minimum(lower, upper), upper * self.stretch, kind)

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        return self.polar(stack)

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
