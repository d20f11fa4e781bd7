"""What a reduction is: apply, and invert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from provenet.problem import Program
from provenet.variable import Factors


class Back(ABC):
    """The way between a program and what a reduction made of it.

    Both have the same predictions, and so the same loss and the same dual points Θ; neurons are written otherwise.
    """

    @abstractmethod
    def factors(self, factors: Factors) -> Factors:
        """Neurons of the reduced program as neurons of the whole one: the same prediction, no larger a penalty."""

    @abstractmethod
    def start(self, factors: Factors) -> Factors:
        """Neurons of the whole program as neurons of the reduced one, with the same prediction."""

    def hidden(self, theta: Tensor) -> float:
        """How much larger than in the reduced program the polars at Θ may be in the whole one.

        Zero: bounds survive.  Infinite: nothing is known, and only the whole program can say.
        """
        return 0.0


class Reduction(ABC):
    @abstractmethod
    def apply(self, program: Program) -> tuple[Program, Back] | None:
        """The program that is left, and the way back; None where there is nothing to reduce."""


@dataclass(frozen=True)
class Chain(Back):
    """One way after the other, the outermost first."""

    ways: tuple[Back, ...] = ()

    def factors(self, factors: Factors) -> Factors:
        for way in reversed(self.ways):
            factors = way.factors(factors)
        return factors

    def start(self, factors: Factors) -> Factors:
        for way in self.ways:
            factors = way.start(factors)
        return factors

    def hidden(self, theta: Tensor) -> float:
        return sum(way.hidden(theta) for way in self.ways)


def reduced(program: Program, reductions: Iterable[Reduction]) -> tuple[Program, Back]:
    """What is left after all of them, each applied to what the ones before it left, and the way back."""
    ways: list[Back] = []
    for reduction in reductions:
        found = reduction.apply(program)
        if found is not None:
            program, back = found
            ways.append(back)
    return program, Chain(tuple(ways))
