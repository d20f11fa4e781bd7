"""Where neurons are iterated on: an operator in a precision of its own, first layers along the data's axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import batches
from provenet.operators import Operator
from provenet.operators.bases.base import Backward
from provenet.problem import Program
from provenet.space import Space
from provenet.variable import ByGate, Factors

_ALONG = 8  # of a limit of memory, one part in so many is for hidden values of neurons whose second layers change


class Few:
    """Some gates, by ``names``, and the operator of these alone, which counts them from zero."""

    def __init__(self, names: Tensor, operator: Operator):
        self.names, self.operator = names, operator
        self._last: tuple[Tensor, Tensor] | None = None

    def counted(self, gate: Tensor) -> Tensor:
        """Gates by that count; the last answer is kept, as steps ask with one and the same tensor."""
        if self._last is None or self._last[0] is not gate:
            self._last = gate, torch.searchsorted(self.names, gate)
        return self._last[1]


@dataclass(frozen=True)
class Coordinates:
    """basis (p, p): first layers are basis·u, None: as they are.  moments (p,): the data's along it, where known.
    few: some gates, and the operator of these alone, where products are made with neurons of no others.

    Only products with neurons are made in this precision.  Losses, penalties and their sums are in float64.
    """

    operator: Operator
    basis: Tensor | None = None
    moments: Tensor | None = None
    few: Few | None = None

    @staticmethod
    def of(program: Program, dtype: torch.dtype) -> Coordinates:
        operator = program.operator.to(Space(program.operator.space.device, dtype)).often()
        axes = operator.principal_axes()
        return Coordinates(operator) if axes is None else Coordinates(operator.turned(axes.basis), *axes)

    def finer(self, program: Program) -> Coordinates:
        """The same in the program's own precision: what was remembered of steps holds there, up to rounding."""
        operator = program.operator.often()
        if self.basis is None or self.moments is None:
            return Coordinates(operator)
        rough = self.basis.to(program.operator.dtype)
        basis = 1.5 * rough - 0.5 * rough @ (rough.T @ rough)  # orthonormal to twice as many digits
        return Coordinates(operator.turned(basis), basis, self.moments.to(basis.dtype))

    def opened(self, gate: Tensor) -> Coordinates:
        """For neurons behind these gates."""
        names = torch.unique(gate)
        if len(names) in (0, self.operator.n_gates):
            return replace(self, few=None)
        if self.few is not None and torch.equal(names, self.few.names):
            return self
        return replace(self, few=Few(names, self.operator.restrict(names)))

    def along(self, factors: Factors) -> tuple[Coordinates, Factors]:
        """For neurons with these first layers and any second ones: what the data have along them, made once where it
        can be kept, and the neurons by their place there; else all as it is."""
        operator, own = self._own(factors)
        groups, cells = ByGate(own.gate), max(operator.q // operator.output_shape[-1], 1)
        hidden = operator.kernel_rows * len(groups.names) * groups.width * cells * operator.dtype.itemsize
        if not operator.narrows or hidden > min(batches.KEPT, batches.share(_ALONG)):
            return self, factors
        few = operator.narrowed(groups.names, groups.gather(own.left))
        slots = operator.space.eye(groups.width)[groups.slot]
        return Coordinates(few), Factors(slots, own.right, groups.group)

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        operator, own = self._own(factors)
        return operator.both_ways(own)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        operator, own = self._own(factors)
        return operator.adjoint_factors(residual, own)

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        operator, own = self._own(factors)
        return operator.alone(own, rows)

    def _own(self, factors: Factors) -> tuple[Operator, Factors]:
        """The operator of their gates, by whose count they are named."""
        if self.few is None:
            return self.operator, factors
        return self.few.operator, replace(factors, gate=self.few.counted(factors.gate))

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


def evaluated(program: Program, here: Coordinates, factors: Factors) -> tuple[Tensor, Callable[[float], Spot]]:
    """The objective (BM eq. 17, 18), not yet read, and how to go on, told it, to its gradient (G_k v_j + βu_j,
    G_kᵀu_j + βv_j)."""
    rough, back = here.both_ways(factors)
    prediction = rough.to(torch.float64)
    exact = factors.to(Space(factors.left.device))

    def onwards(value: float) -> Spot:
        left, right = back(program.loss.gradient(prediction).to(here.dtype))
        slope = torch.cat([left, right], dim=1)
        slope += program.beta * torch.cat([factors.left, factors.right], dim=1)
        return Spot(factors, prediction, value, slope)

    return program.loss.value(prediction) + program.beta * exact.penalty(), onwards


def spot(program: Program, here: Coordinates, factors: Factors) -> Spot:
    value, onwards = evaluated(program, here, factors)
    return onwards(float(value))
