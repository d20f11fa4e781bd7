"""ReLU networks of a statement's block on data, for gates that are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from provenet.blocks import OnData
from provenet.losses import Loss
from provenet.problem import Units
from provenet.variable import Factors


@dataclass(frozen=True)
class BlockTrainee:
    """Networks of a block on its data, with the normalised loss and β of the program that is to be solved."""

    on: OnData
    loss: Loss
    beta: float
    units: Units

    @property
    def samples(self) -> int:
        return len(self.on.X)

    @property
    def q(self) -> int:
        return self.on.q

    def work(self, neurons: int) -> float:
        return neurons * self.on.rho * (self.on.p + self.on.q)

    def network(self, group: Tensor, some: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        on, root = self.on, self.units.z**0.5
        nobody = Factors.empty(on.p, on.q)
        module = on.block.network(nobody, None, on.readout, group if len(on.groups) > 1 else None, True)
        x = on.X[some].to(torch.float64)
        inputs: tuple[Any, ...] = (x,) if on.mask is None else (x, on.mask[some])

        def outputs(first: Tensor, second: Tensor) -> Tensor:
            weights = {"first": root * first, "second": root * second}
            return functional_call(module, weights, inputs) / self.units.y

        return outputs

    def slope(self, outputs: Tensor, some: Tensor) -> tuple[float, Tensor]:
        loss = self.loss
        if len(some) < self.samples:
            loss = loss.with_data(loss.target[some], loss.sample_weight[some])
        said = outputs.detach()
        if said.shape != loss.target.shape:
            block, needed = self.on.block.name, (self.samples, *said.shape[1:])
            raise ValueError(f"Y: block {block!r} on this X needs {needed}, got {tuple(self.loss.target.shape)}.")
        return float(loss.value(said)), loss.gradient(said)
