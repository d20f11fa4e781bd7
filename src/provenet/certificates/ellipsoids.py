"""A better dual point of a ReLU program, with the multipliers of its bounds held fixed.

What bounds a cone's pull is a T_k, a sum of pairs of vectors of the dual cone, with uᵀT_ku ≥ 0 for u in the cone:
λ_max(G_kG_kᵀ + T_k) ≤ β² proves ‖G_kᵀu‖ ≤ β there (`cones.relaxation`).  At the gradient Θ of a good network some of
these bounds are a little beyond β, and shrinking Θ until none is costs as much as the worst of them.  But they are
convex in Θ: with M_k = β²I − T_k they say that ‖M_k^{-½}G_k‖ ≤ 1, and

    max_Θ −L*(Θ)   s.t.  ‖M_k^{-½} A_k*Θ‖ ≤ 1      is the dual of      min_W L(Σ_k A_k(M_k^{-½}W_k)) + Σ_k ‖W_k‖_*,

a gated program, in which cones are ellipsoids.  A few accelerated steps find a Θ that is worth more than the one that
was shrunk.  It is a guess: whoever uses it bounds its polars anew, and T_k, which is remembered, is there to do it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates.gap import DualPoint, dual_point
from provenet.cones.base import Table
from provenet.cones.relaxation import held, hold
from provenet.gauges import BoundKind, ConeGauge
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.gauges.spectral import spectral_norms
from provenet.polar import is_large
from provenet.problem import Program
from provenet.variable import Stack
from provenet.vectors import power_of_two

_FAR = 1.5  # times β: with a bound beyond that, too little is known of the cones
_INSIDE = 1e-3  # of T_k: left out, so that M_k is one of definite sign
_MOST = 1_000  # outputs of all samples, whose kernel is factorised
_STEPS, _LOOK = 200, 20  # at most, and between two looks
_WEIGHT, _BEYOND = 10.0, 1.6  # of the splitting, for a loss of one at zero, and its over-relaxation
_ENOUGH = 1e-4  # of the objective: how well the program need be solved
_SLOW = 0.02  # of what is open: a late look that gains less is the last
_TINY = 1e-300


def better_dual(program: Program, at: DualPoint) -> DualPoint | None:
    """A dual point that promises more than ``at``, whose bounds have just been made; None where there is none.

    Its ``polar_max`` is a promise."""
    cones = _cones(program)
    if cones is None or program.loss.target.numel() > _MOST or deadline.over():
        return None
    size = power_of_two(at.theta)  # in whose units polars are bounded, and T is kept
    beta, stack = program.beta / size, program.operator.adjoint(-at.theta / size)
    kept, found = held(cones, stack)
    bound = torch.minimum(found, spectral_norms(stack))
    if not float(bound.max()) <= _FAR * beta:
        return None
    share = torch.where(found <= bound, (beta / bound).clamp_max(1.0).square() * (1 - _INSIDE), 0.0)
    values, basis = torch.linalg.eigh(kept * (-share)[:, None, None])
    values = (beta**2 + values).clamp_min(_INSIDE * beta**2)
    root = torch.bmm(basis * values.rsqrt()[:, None, :], basis.mT) / size
    best = _Ellipsoids(program, root).solved(at)
    if not best.lower > at.lower:
        return None
    hold(cones, share * (size / power_of_two(best.theta)) ** 2)
    return best


def _cones(program: Program) -> Table | None:
    """Those of all gates, where they are a table that remembers what its bounds have used."""
    if not isinstance(program.gauge, ConeGauge) or is_large(program.operator):
        return None
    tables = program.gauge.region.tables
    if len(tables) != 1 or len(tables[0][0]) != program.operator.n_gates or tables[0][1].recall is None:
        return None
    return None if tables[0][1].exact(program.operator.q) else tables[0][1]


class _Ellipsoids:
    """min L(Ŷ) + Σ_k ‖V_k‖_*  s.t.  Ŷ = BW, V = W,  where BW = Σ_k A_k(root_kW_k), root (P, p, p): alternating
    directions (Boyd et al. 2011), W by a factorisation of I + BBᵀ."""

    def __init__(self, program: Program, root: Tensor):
        self.program, self.root = program, root

    def _forward(self, W: Stack) -> Tensor:
        return self.program.operator.forward(torch.bmm(self.root, W))

    def _slope(self, theta: Tensor) -> Stack:
        return torch.bmm(self.root, self.program.operator.adjoint(theta))

    def solved(self, best: DualPoint) -> DualPoint:
        """The best dual point met, or ``best``."""
        loss, gauge = self.program.loss, NuclearNorm()
        chol = self._factorised()
        Y = torch.zeros_like(loss.target)
        weight = _WEIGHT / max(float(loss.value(Y)), _TINY)
        V, push, pull = (self.program.operator.new_stack(), self.program.operator.new_stack(), Y.clone())
        for count in range(1, _STEPS + 1):
            Q = V + push
            off = Y + pull - self._forward(Q)
            W = Q + self._slope(torch.cholesky_solve(off.reshape(-1, 1), chol).view_as(off))
            there = _BEYOND * self._forward(W) + (1 - _BEYOND) * Y
            Y = loss.prox(there - pull, 1 / weight)
            pull = pull + Y - there
            there_W = _BEYOND * W + (1 - _BEYOND) * V
            V, _ = gauge.prox(there_W - push, 1 / weight)
            push = push + V - there_W
            if count % _LOOK == 0:
                before, best = best.lower, max(best, self._dual(Y), self._dual(self._forward(V)), key=_lower)
                primal = float(loss.value(self._forward(V)) + gauge.values(V).sum())
                slow = count > _STEPS // 2 and best.lower - before <= _SLOW * (primal - before)
                if primal - best.lower <= _ENOUGH * abs(primal) or slow or deadline.over():
                    break
        return best

    def _factorised(self) -> Tensor:
        """The Cholesky factor of I + BBᵀ, of as many sides as there are outputs in all."""
        like = self.program.loss.target
        units = torch.eye(like.numel(), dtype=like.dtype, device=like.device)
        kernel = torch.stack([self._forward(self._slope(unit.view_as(like))).flatten() for unit in units])
        return torch.linalg.cholesky(units + 0.5 * (kernel + kernel.T))

    def _dual(self, prediction: Tensor) -> DualPoint:
        """The gradient, as far as the ellipsoids let it."""
        program = self.program
        theta = program.loss.dual_at(prediction)
        largest = max(float(spectral_norms(self._slope(theta)).max()), _TINY)
        promised = dual_point(program, theta, largest * program.beta, BoundKind.DETERMINISTIC)
        tau = program.loss.dual_scale(theta, 1 / largest)
        return replace(promised, theta=tau * theta, polar_max=tau * largest * program.beta)


def _lower(point: DualPoint) -> float:
    return point.lower
