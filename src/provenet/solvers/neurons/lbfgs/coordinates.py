"""Where neurons are iterated on: an operator in a precision of its own, first layers along the data's axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.operators import Operator
from provenet.problem import Program
from provenet.space import Space
from provenet.variable import Factors


@dataclass(frozen=True)
class Coordinates:
    """basis (p, p): first layers are basis·u, None: as they are.  moments (p,): the data's along it, where known.

    Only products with neurons are made in this precision.  Losses, penalties and their sums are in float64.
    """

    operator: Operator
    basis: Tensor | None = None
    moments: Tensor | None = None

    @staticmethod
    def of(program: Program, dtype: torch.dtype) -> Coordinates:
        operator = program.operator.to(Space(program.operator.space.device, dtype))
        axes = operator.along_axes()
        return Coordinates(operator) if axes is None else Coordinates(*axes)

    @property
    def dtype(self) -> torch.dtype:
        return self.operator.dtype

    def enter(self, factors: Factors) -> Factors:
        """Neurons of the program, here."""
        turned = factors.left if self.basis is None else factors.left @ self.basis.to(factors.left.dtype)
        return replace(factors, left=turned).to(self.operator.space)

    def leave(self, factors: Factors) -> Factors:
        """Neurons from here, as the program has them."""
        exact = factors.to(Space(factors.left.device))
        return exact if self.basis is None else replace(exact, left=exact.left @ self.basis.to(exact.left.dtype).T)


@dataclass(frozen=True)
class Spot:
    """Neurons here, their prediction (n, …, c) and objective in float64, and its gradient (N, p + q)."""

    factors: Factors
    prediction: Tensor
    value: float
    gradient: Tensor

    @property
    def weights(self) -> Tensor:
        """(N, p + q)."""
        return torch.cat([self.factors.left, self.factors.right], dim=1)


def evaluated(program: Program, here: Coordinates, factors: Factors) -> tuple[float, Callable[[], Spot]]:
    """The objective (BM eq. 17, 18), and how to go on to its gradient (G_k v_j + βu_j, G_kᵀu_j + βv_j)."""
    rough, back = here.operator.both_ways(factors)
    prediction = rough.to(torch.float64)
    exact = factors.to(Space(factors.left.device))
    value = float(program.loss.value(prediction)) + program.beta * float(exact.penalty())

    def onwards() -> Spot:
        left, right = back(program.loss.gradient(prediction).to(here.dtype))
        slope = torch.cat([left, right], dim=1)
        slope += program.beta * torch.cat([factors.left, factors.right], dim=1)
        return Spot(factors, prediction, value, slope)

    return value, onwards


def spot(program: Program, here: Coordinates, factors: Factors) -> Spot:
    return evaluated(program, here, factors)[1]()
