"""What the loop looks at, and what it tells of a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from provenet.certificates import DualPoint
from provenet.variable import Factors


@dataclass(frozen=True)
class Point:
    """A candidate: its prediction, its penalty Σγ(Z_k), and its neurons when asked for.

    dual: a dual point whose bound the method has proved on its own, if any.  least: what the largest polar at its
    gradient is, about, at least, where the method has seen something of it."""

    prediction: Tensor
    penalty: float
    factors: Callable[[], Factors]
    dual: DualPoint | None = None
    least: float = 0.0

    @staticmethod
    def of(factors: Factors, prediction: Tensor, dual: DualPoint | None = None, least: float = 0.0) -> Point:
        """Where neurons stand, by their weight decay."""
        return Point(prediction, float(factors.penalty()), lambda: factors, dual, least)


@dataclass(frozen=True)
class Record:
    """One look at the gap."""

    step: int
    seconds: float
    primal: float
    dual: float
    relative_gap: float
