"""Programs whose gauge is easier in other variables: those of an operator around the program's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provenet.gauges import ConeColumns, SignNorm
from provenet.gauges.prox.mixed import signs
from provenet.operators import ByOutput, Lifted
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors


@dataclass(frozen=True)
class Signs(Reduction):
    """A weight for each vector of signs, where an ∞-norm leaves only those for neurons (BM Thm B.1): Z = SᵀW or WS, S
    all vectors of signs, and the gauge of W is a sum of norms of its rows or columns."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        op, gauge = program.operator, program.gauge
        if not isinstance(gauge, SignNorm):
            return None
        by_rows = gauge.by_rows(op.p, op.q)
        operator = Lifted(op, signs(op.space, op.p if by_rows else op.q), by_rows)
        return replace(program, operator=operator, gauge=gauge.lifted(op.p, op.q)), _Lowered(operator)


@dataclass(frozen=True)
class ByOutputs(Reduction):
    """A block for each pair of gate and output, where neurons write to one output each."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        if not isinstance(program.gauge, ConeColumns):
            return None
        operator, gauge = ByOutput(program.operator), program.gauge.apart(program.operator.q)
        return replace(program, operator=operator, gauge=gauge), _Lowered(operator)


@dataclass(frozen=True)
class _Lowered(Back):
    operator: ByOutput | Lifted

    def factors(self, factors: Factors) -> Factors:
        return self.operator.lowered(factors)

    def start(self, factors: Factors) -> Factors:
        return self.operator.raised(factors)
