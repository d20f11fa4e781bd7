"""The strongest pull of any ReLU neuron: max f(u) over all ‖u‖ ≤ 1, f(u) = ‖Σ_r σ(Φ_r u) M_r‖ (the dual's CP (11)).

With all arrangements enumerated this is cone-constrained PCA.  Here no arrangement is named, so that the bounds hold
for every network, whatever the number of arrangements: from below a climb from many starts, from above the diagonal
relaxation and, where the rows have low rank, branch and bound over directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.operators.bases.rank import span
from provenet.polar.relaxation import diagonal_bound
from provenet.polar.sphere import MOST_DIMENSIONS, branch
from provenet.vectors import unit

_STARTS = 32
_CLIMB_STEPS = 60
_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Pull:
    """rows Φ (N, p) and weights M (N, q), so that a neuron u with the pattern D pulls with Σ_r D_r Φ_r u M_r."""

    rows: Tensor
    weights: Tensor

    def at(self, u: Tensor) -> Tensor:
        """Σ_r σ(Φ_r u) M_r for every u (B, p): (B, q)."""
        return (u @ self.rows.T).clamp_min(0) @ self.weights

    def strength(self, u: Tensor) -> Tensor:
        """f(u), (B,)."""
        return torch.linalg.vector_norm(self.at(u), dim=1)

    @property
    def rounding(self) -> float:
        """What sums of up to N + p products may hide from f."""
        terms = self.rows.shape[0] + sum(self.rows.shape[1:]) + sum(self.weights.shape[1:]) + 16
        return 4 * terms * _EPS * float(torch.linalg.vector_norm(self.rows.abs().T @ self.weights.abs()))


@dataclass(frozen=True)
class Strongest:
    """lower ≤ max f ≤ upper; u (p,) of unit length attains ``lower``.  ``method``: how ``upper`` was found."""

    lower: float
    upper: float
    u: Tensor
    method: str


def strongest(pull: Pull, starts: Tensor, enough: float = 0.0, tolerance: float = 1e-3) -> Strongest:
    """Bounds over all u.  starts (B, p): where to climb from, besides rows and chance.

    ``enough``: an upper bound no larger than this need not be tightened, nor one within ``tolerance`` of the lower.
    """
    p = pull.rows.shape[1]
    counts = (torch.linalg.vector_norm(pull.rows, dim=1) > 0) & (torch.linalg.vector_norm(pull.weights, dim=1) > 0)
    pull = Pull(pull.rows[counts], pull.weights[counts])
    if not bool(counts.any()):
        return Strongest(0.0, 0.0, torch.eye(p, dtype=torch.float64)[0], "nothing pulls")
    small, basis, lost = _reduced(pull)
    u, lower = climb(small, unit(torch.cat([starts @ basis, *_chances(small)])))
    slack = small.rounding + pull.rounding + lost
    upper, method = diagonal_bound(small.rows, small.weights), "diagonal relaxation over all u"
    goal = max(enough, lower * (1 + tolerance))
    if upper > goal and small.rows.shape[1] <= MOST_DIMENSIONS:
        found = branch(small.rows, small.weights, lower, upper, goal, tolerance)
        if found.upper < upper:
            upper, method = found.upper, "branch and bound over all u"
        if found.lower > lower:
            again, value = climb(small, found.u[None])
            u, lower = again, value
    return Strongest(lower, max(upper, lower) + slack, unit((u @ basis.T)[None])[0], method)


def climb(pull: Pull, u: Tensor) -> tuple[Tensor, float]:
    """The best of ascents of f on the sphere from each u (B, p), steps halved where f would fall; (u (p,), f(u))."""
    value = pull.strength(u)
    step = torch.ones_like(value)
    for _ in range(_CLIMB_STEPS):
        side = u @ pull.rows.T
        v = side.clamp_min(0) @ pull.weights
        slope = ((v @ pull.weights.T) * (side > 0)) @ pull.rows  # ∇f²/2
        move = unit(slope)
        trial = unit(u * (1 - step[:, None]) + step[:, None] * move)
        there = pull.strength(trial)
        better = there > value
        u, value = torch.where(better[:, None], trial, u), torch.where(better, there, value)
        step = torch.where(better, (1.5 * step).clamp_max(1.0), 0.5 * step)
        if not bool((step > 1e-8).any()) or deadline.over():
            break
    best = int(value.argmax())
    return u[best], float(value[best])


def _chances(pull: Pull) -> tuple[Tensor, Tensor, Tensor]:
    """Rows that weigh most, of either sign, and random directions."""
    weight = torch.linalg.vector_norm(pull.rows, dim=1) * torch.linalg.vector_norm(pull.weights, dim=1)
    rows = pull.rows[torch.argsort(weight, descending=True)[:_STARTS]]
    generator = torch.Generator().manual_seed(0)
    return rows, -rows, torch.randn(_STARTS, pull.rows.shape[1], generator=generator, dtype=torch.float64)


def _reduced(pull: Pull) -> tuple[Pull, Tensor, float]:
    """In the span of the rows (CP A.2): (pull, basis (p, r), what leaving out the rest can hide from f)."""
    basis = span(pull.rows)
    inside = pull.rows @ basis
    rest = torch.linalg.vector_norm(pull.rows - inside @ basis.T, dim=1)
    # basis is orthonormal up to a few eps, so that ‖basisᵀu‖ ≤ 1 + that
    loose = 8 * sum(basis.shape) * _EPS * torch.linalg.vector_norm(pull.rows, dim=1)
    lost = float(((rest + loose) * torch.linalg.vector_norm(pull.weights, dim=1)).sum())
    return Pull(inside, pull.weights), basis, lost
