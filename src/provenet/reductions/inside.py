"""ReLU neurons strictly inside their cones, so that the network opens the rows that the program opens."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provenet.cones import Cones, ImplicitCones
from provenet.gauges import ConeNuclear
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors


@dataclass(frozen=True)
class Inside(Reduction):
    """The program stays; neurons that rounding left on a wall, or beyond, are pulled inside on the way back."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        if not isinstance(program.gauge, ConeNuclear) or program.gauge.region is None:
            return None
        return program, _Pulled(program.gauge.region)


@dataclass(frozen=True)
class _Pulled(Back):
    region: Cones | ImplicitCones

    def factors(self, factors: Factors) -> Factors:
        return replace(factors, left=self.region.pulled_inside(factors.left, factors.gate))

    def start(self, factors: Factors) -> Factors:
        return factors
