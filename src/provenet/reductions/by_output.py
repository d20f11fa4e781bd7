"""A block for each pair of gate and output, where neurons write to one output each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provenet.gauges import ConeColumns
from provenet.operators import ByOutput
from provenet.problem import Program
from provenet.reductions.base import Back, Lowered, Reduction


@dataclass(frozen=True)
class ByOutputs(Reduction):
    def apply(self, program: Program) -> tuple[Program, Back] | None:
        if not isinstance(program.gauge, ConeColumns):
            return None
        operator = ByOutput(program.operator)
        gauge = program.gauge.apart(program.operator.q)
        return replace(program, operator=operator, gauge=gauge), Lowered(operator)
