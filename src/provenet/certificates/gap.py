"""The duality gap of any point (maths: dual CP (11)(78), AT (38))."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import BoundKind
from provenet.polar import polar_bounds
from provenet.problem import Program


@dataclass(frozen=True)
class Gap:
    """primal − dual ≥ primal − p* ≥ 0, with no assumption on the point."""

    primal: float
    dual: float
    polar_max: float  # upper bound of max_k γ°(A_k*Θ)
    bound: BoundKind
    polar_least: float = 0.0  # lower bound of the same: where it is beyond β, the point is not optimal

    @property
    def absolute(self) -> float:
        return self.primal - self.dual

    @property
    def relative(self) -> float:
        return relative_gap(self.primal, self.dual)


def relative_gap(primal: float, dual: float) -> float:
    return (primal - dual) / max(abs(primal), torch.finfo(torch.float64).tiny)


def duality_gap(program: Program, prediction: Tensor, penalty: float, final: bool = False) -> Gap:
    """The gap of a point with this prediction Ŷ and penalty Σγ(Z_k).  ``final``: as `Program.polar` has it.

    Θ = ∇L(Ŷ), shrunk by τ until γ_k°(A_k*τΘ) ≤ β for all k; then −L*(τΘ) ≤ p* by weak duality.  The polar's upper
    bound is widened by what rounding in A*Θ can hide.
    """
    theta = program.loss.gradient(prediction)
    polar = polar_bounds(program.operator, program.gauge, theta, final, against=program.beta)
    polar_max = float(polar.upper.max()) + _rounding(program, theta)
    gap = gap_at(program, prediction, penalty, theta, polar_max, polar.kind)
    return replace(gap, polar_least=float(polar.lower.max()))


def gap_at(
    program: Program, prediction: Tensor, penalty: float, theta: Tensor, polar_max: float, kind: BoundKind
) -> Gap:
    """The gap of a point by any dual point Θ whose polars are at most ``polar_max``, rounding included."""
    primal = float(program.loss.value(prediction)) + program.beta * penalty
    return Gap(primal, _dual(program, theta, polar_max), polar_max, kind)


def lower_bound(program: Program, theta: Tensor, polar_max: float) -> float:
    """−L*(τΘ) ≤ p* for any Θ with γ_k°(A_k*Θ) ≤ ``polar_max`` at every gate, rounding in A*Θ aside."""
    return _dual(program, theta, polar_max + _rounding(program, theta))


def _rounding(program: Program, theta: Tensor) -> float:
    """What rounding in A*Θ can hide from the polar."""
    return program.operator.rounding(theta) * program.gauge.rounding(program.operator.p, program.operator.q)


def _dual(program: Program, theta: Tensor, polar_max: float) -> float:
    largest = program.beta / polar_max if polar_max > 0 else float("inf")
    tau = program.loss.dual_scale(theta, largest)
    return -float(program.loss.conjugate(tau * theta))
