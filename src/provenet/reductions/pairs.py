"""ReLU blocks with one output as pairs (gate, sign) of vectors in cones, whose length has a prox.

min L(Σ_k A_k(w⁺_k − w⁻_k)) + β Σ_k ‖w⁺_k‖ + ‖w⁻_k‖   with   K_k w^±_k ≥ 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.cones import Table
from provenet.gauges import ConeGauge, ConeNuclear
from provenet.gauges.cones.norm import ConeNorm
from provenet.operators.wrappers.signed import SignedOperator
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors


@dataclass(frozen=True)
class SignedPairs(Reduction):
    def apply(self, program: Program) -> tuple[Program, Back] | None:
        gauge, op = program.gauge, program.operator
        if not isinstance(gauge, ConeGauge) or op.q != 1:
            return None
        every = torch.arange(op.n_gates)
        cones = gauge.region.restrict(torch.cat([every, every]))
        operator = SignedOperator.both(op)
        # the length of a vector in its cone knows nothing of rows that are rounded, or many arrangements' at once
        as_good = type(gauge) is ConeNuclear and isinstance(cones, Table) and cones.noise is None and cones.doubt == 0
        return Program(operator, program.loss, ConeNorm(cones), program.beta), _Unsigned(operator, op.n_gates, as_good)


@dataclass(frozen=True)
class _Unsigned(Back):
    """as_good: whether the polars of pairs are those of their gates, rounding included."""

    operator: SignedOperator
    n_gates: int
    as_good: bool

    def factors(self, factors: Factors) -> Factors:
        found = self.operator.lowered(factors)
        return replace(found, gate=found.gate % self.n_gates)

    def start(self, factors: Factors) -> Factors:
        negative = (factors.right[:, 0] < 0).long()
        return Factors(factors.left, factors.right.abs(), factors.gate + negative * self.n_gates)

    def hidden(self, theta: Tensor) -> float:
        return 0.0 if self.as_good else math.inf
