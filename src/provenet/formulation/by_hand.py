"""Loss and gradients of a network that is two matrix products, by hand in numpy: on small tables torch's calls, and
autograd's more so, take many times as long as what is multiplied."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from provenet.blocks import OnData
from provenet.losses import Loss
from provenet.problem import Units

_Array = NDArray[np.float64]


class ByHand:
    """(first, second, bias) ↦ L and its gradients, for outputs act(Φ firstᵀ) second of a block that is ``plain``.

    Samples come last, (m, n) and (c, n): sums over few outputs are quicker across long rows than along short ones."""

    def __init__(self, on: OnData, loss: Loss, units: Units, relu: bool) -> None:
        rows = on.block.rows(on.X.to(torch.float64))
        assert rows is not None
        self.rows = rows.numpy() * (units.z / units.y)  # (n, p); what units make of both layers and of the outputs
        self.columns = np.ascontiguousarray(self.rows.T)
        self.loss, self.relu = loss, relu

    def __call__(self, first: _Array, second: _Array, bias: _Array) -> tuple[float, list[_Array]]:
        hidden = first @ self.columns
        if self.relu:
            np.maximum(hidden, 0.0, out=hidden)
        loss, slope = self.loss.in_columns(second.T @ hidden, bias if len(bias) else None)
        by_hidden = second @ slope
        if self.relu:
            by_hidden *= hidden > 0
        return loss, [by_hidden @ self.rows, hidden @ slope.T, slope.sum(1)[: len(bias)]]
