"""A block for each pair of gate and output, where neurons write to one output each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provenet.gauges import ConeColumns
from provenet.operators import ByOutput
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors


@dataclass(frozen=True)
class ByOutputs(Reduction):
    def apply(self, program: Program) -> tuple[Program, Back] | None:
        if not isinstance(program.gauge, ConeColumns):
            return None
        operator = ByOutput(program.operator)
        gauge = program.gauge.apart(program.operator.q)
        return replace(program, operator=operator, gauge=gauge), _Together(operator)


@dataclass(frozen=True)
class _Together(Back):
    operator: ByOutput

    def factors(self, factors: Factors) -> Factors:
        return self.operator.lowered(factors)

    def start(self, factors: Factors) -> Factors:
        return self.operator.raised(factors)
