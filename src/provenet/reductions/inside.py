"""ReLU neurons strictly inside their cones, so that the network opens the rows that the program opens."""

from __future__ import annotations

from dataclasses import dataclass

from provenet.gauges import RegionGauge
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors


@dataclass(frozen=True)
class Inside(Reduction):
    """The program stays; neurons that rounding left on a wall, or beyond, are pulled inside on the way back."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        return (program, _Pulled(program.gauge)) if isinstance(program.gauge, RegionGauge) else None


@dataclass(frozen=True)
class _Pulled(Back):
    gauge: RegionGauge

    def factors(self, factors: Factors) -> Factors:
        return self.gauge.inside(factors)

    def start(self, factors: Factors) -> Factors:
        return factors
