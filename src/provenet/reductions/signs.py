"""A weight for each vector of signs, where an ∞-norm leaves only those for neurons (BM Thm B.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provenet.gauges import SignNorm
from provenet.gauges.prox.mixed import signs
from provenet.operators import Lifted
from provenet.problem import Program
from provenet.reductions.base import Back, Lowered, Reduction


@dataclass(frozen=True)
class Signs(Reduction):
    """Z = SᵀW or WS, S all vectors of signs: the gauge of W is a sum of norms of its rows or columns."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        op, gauge = program.operator, program.gauge
        if not isinstance(gauge, SignNorm):
            return None
        by_rows = gauge.by_rows(op.p, op.q)
        operator = Lifted(op, signs(op.space, op.p if by_rows else op.q), by_rows)
        return replace(program, operator=operator, gauge=gauge.lifted(op.p, op.q)), Lowered(operator)
