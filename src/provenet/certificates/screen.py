"""Gates that need not be met at every look.

The polar of a gate moves no faster than Θ does,

    γ°(A_k*Θ) ≤ γ°(A_k*Θ') + γ°(A_k*(Θ − Θ')),

and the last term has a bound for all gates at once that costs next to nothing (`Operator.pull_upper`).  So once all
gates were met at Θ', those whose bound stays below β at Θ cannot be what limits the dual point there, and wait; all
others are met.  As a run comes to its end, the ball that its dual points move in shrinks, and in the end hardly more
gates are met than are open: those that stay below β on a ball around the dual optimum never come back (gap safe
screening, Ndiaye et al. 2017, but with a radius that is measured, where theirs is bounded by the gap: no constant of
the loss is needed, and every bound holds for the program with all its gates).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import Bounds
from provenet.polar import is_large
from provenet.problem import Program
from provenet.variable import Stack

_FEWEST = 64  # gates: fewer cost less than it takes to know which may wait
_MOST = 0.25  # of the gates: where more are to be met, all are, and bounds begin anew from there


@dataclass(frozen=True)
class Met:
    """All gates at one Θ (n, …, c): upper bounds (P,) of their polars there, what rounding hides included."""

    theta: Tensor
    upper: Tensor


class Screen:
    """What one run knows of gates that may wait."""

    def __init__(self, program: Program):
        self.program = program
        self.last: Met | None = None  # where all gates were met

    @staticmethod
    def serves(program: Program) -> bool:
        op = program.operator
        return program.gauge.exact_polar and op.n_gates >= _FEWEST and not op.shards.spread and not is_large(op)

    def waiting(self, theta: Tensor) -> Tensor | None:
        """Upper bounds (P,) of polars at Θ, known without meeting a gate; None where too many would be beyond β."""
        if self.last is None:
            return None
        op, gauge = self.program.operator, self.program.gauge
        moved = op.pull_upper(theta - self.last.theta) * gauge.rounding(op.p, op.q)
        upper = (self.last.upper + moved) * (1 + 4 * torch.finfo(self.last.upper.dtype).eps)
        return None if int((upper > self.program.beta).sum()) > _MOST * op.n_gates else upper

    def met(self, theta: Tensor, upper: Tensor) -> None:
        """All gates, at Θ."""
        self.last = Met(theta, upper)


def joined(some: Bounds, gates: Tensor, waiting: Tensor) -> Bounds:
    """Bounds of all gates (P,): of some that were met, and of those that wait, whose part of the stack is zero."""
    upper, lower = waiting.clone(), torch.zeros_like(waiting)
    upper[gates], lower[gates] = some.upper, some.lower
    return replace(some, lower=lower, upper=upper, stack=_spread(some.stack, gates, len(waiting)))


def _spread(stack: Stack | None, gates: Tensor, count: int) -> Stack | None:
    if stack is None:
        return None
    whole = stack.new_zeros(count, *stack.shape[1:])
    whole[gates] = stack
    return whole
