"""A(Z) of a stack most of whose gates are zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.operators import Operator
from provenet.variable import Stack

_FEW = 0.4  # of the gates: below it, gathering them costs less than it saves
BULKY_BYTES = 512 * 2**20  # an operator that holds more is not copied for some of its gates


@dataclass(frozen=True)
class ActiveForward:
    """Remembers the operator restricted to the last set of open gates: near the optimum the set no longer changes."""

    operator: Operator
    last: tuple[Tensor, Operator] | None = None

    def forward(self, stack: Stack, values: Tensor) -> tuple[Tensor, ActiveForward]:
        """A(stack), for block gauges ``values`` (P,) that are zero where the block is."""
        open_gates = torch.nonzero(values > 0).flatten()
        many = open_gates.numel() > _FEW * self.operator.n_gates
        if many or self.operator.held_bytes > BULKY_BYTES:
            return self.operator.forward(stack), ActiveForward(self.operator)
        if open_gates.numel() == 0:
            return self.operator.space.zeros(*self.operator.output_shape), ActiveForward(self.operator)
        if self.last is not None and torch.equal(self.last[0], open_gates):
            return self.last[1].forward(stack[open_gates]), self
        restricted = self.operator.restrict(open_gates)
        return restricted.forward(stack[open_gates]), ActiveForward(self.operator, (open_gates, restricted))
