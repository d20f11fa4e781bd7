"""ReLU networks of a statement's block on data, for gates that are trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet import deadline
from provenet.blocks import OnData
from provenet.data.alike import digests
from provenet.formulation.by_hand import ByHand
from provenet.gates.sight import Slopes
from provenet.losses import Loss
from provenet.problem import Units
from provenet.variable import Factors

_NARROWING = 5e10  # multiply-adds, beyond which it is no longer a moment


@dataclass(frozen=True)
class BlockTrainee:
    """Networks of a block on its data, ReLU or else linear, with the normalised loss and β of the program that is to be
    solved."""

    on: OnData
    loss: Loss
    beta: float
    units: Units
    relu: bool = True

    @property
    def samples(self) -> int:
        return len(self.on.X)

    @property
    def p(self) -> int:
        return self.on.p

    @property
    def q(self) -> int:
        return self.on.q

    def work(self, neurons: int) -> float:
        return neurons * self.on.rho * (self.on.p + self.on.q)

    def network(self, group: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        on, root = self.on, self.units.z**0.5
        nobody = Factors.empty(on.p, on.q)
        module = on.block.network(nobody, None, on.readout, group, self.relu)
        del (
            module.first,
            module.second,
        )  # plain tensors in their place: `functional_call` takes as long as small samples
        x = on.X.to(torch.float64)
        inputs: tuple[Any, ...] = (x,) if on.mask is None else (x, on.mask)

        def outputs(first: Tensor, second: Tensor) -> Tensor:
            module.first, module.second = root * first, root * second
            return module(*inputs) / self.units.y

        return outputs

    def bias(self) -> Tensor:
        found = self.loss.intercept(torch.zeros_like(self.loss.target))
        return self.loss.target.new_zeros(0) if found is None else found

    def constant_loss(self, bias: Tensor) -> float:
        return float(self.loss.value_at(torch.zeros_like(self.loss.target), bias if len(bias) else None))

    def slopes(self, group: Tensor) -> Slopes:
        if self.on.block.plain and self.loss.target.ndim == 2:
            return ByHand(self.on, self.loss, self.units, self.relu)
        network = self.network(group)

        def slopes(
            first: NDArray[np.float64], second: NDArray[np.float64], bias: NDArray[np.float64]
        ) -> tuple[float, list[NDArray[np.float64]]]:
            layers = [torch.from_numpy(layer).requires_grad_() for layer in (first, second)]
            with torch.enable_grad():
                outputs = network(*layers)
            self._check(outputs)
            b = torch.from_numpy(bias) if len(bias) else None
            said = outputs.detach()
            loss, slope = float(self.loss.value_at(said, b)), self.loss.gradient_at(said, b)
            by_layers = torch.autograd.grad(outputs, layers, slope)
            by_bias = slope.flatten(0, -2).sum(0)[: len(bias)]
            return loss, [part.numpy() for part in (*by_layers, by_bias)]

        return slopes

    def _check(self, outputs: Tensor) -> None:
        if outputs.shape != self.loss.target.shape:
            block, needed = self.on.block.name, tuple(outputs.shape)
            raise ValueError(f"Y: block {block!r} on this X needs {needed}, got {tuple(self.loss.target.shape)}.")

    def part(self, some: Tensor) -> BlockTrainee:
        on = self.on.block.on(
            self.on.X[some], self.on.outputs, self.on.readout, None if self.on.mask is None else self.on.mask[some]
        )
        loss = self.loss.part(some)
        share = float(loss.sample_weight.sum() / self.loss.sample_weight.sum())
        return BlockTrainee(on, loss, share * self.beta, self.units, self.relu)

    def merged(self) -> BlockTrainee:
        X, target = _without_last_digits(self.on.X), _without_last_digits(self.loss.target)
        index, copies = _distinct(X, target, self.on.mask)
        own = self.part(index)
        weight = torch.zeros_like(own.loss.sample_weight).index_add_(0, copies, self.loss.sample_weight)
        beta = float(_without_last_digits(torch.tensor(self.beta, dtype=torch.float64)))
        return replace(own, on=replace(own.on, X=X[index]), loss=own.loss.with_data(target[index], weight), beta=beta)

    def narrowed(self) -> tuple[BlockTrainee, Callable[[Tensor], Tensor]]:
        X, block = self.on.X.to(torch.float64), self.on.block
        work = 2.0 * len(X) ** 2 * X.shape[1]  # of the basis
        if not block.plain or X.shape[1] <= len(X) or work > _NARROWING or not deadline.affords(work):
            return self, lambda first: first
        basis, corner = torch.linalg.qr(X.T)  # (d, n) and (n, n): the samples are cornerᵀ in coordinates of their span
        on = block.on(corner.T.contiguous(), self.on.outputs, self.on.readout)

        def widened(first: Tensor) -> Tensor:  # beside the features a block has its ones, if any
            return torch.cat([first[:, : len(X)] @ basis.T, first[:, len(X) :]], dim=1)

        return replace(self, on=on), widened

    def at(self, beta: float) -> BlockTrainee:
        """At another β, normalised as this one is."""
        return replace(self, beta=beta)


def _without_last_digits(values: Tensor) -> Tensor:
    """To 24 bits: what rounding left in moments and in β_max must not lead a training elsewhere."""
    mantissa, exponent = torch.frexp(values.to(torch.float64))
    return torch.ldexp((mantissa * 2**24).round() / 2**24, exponent)


def _distinct(*parts: Tensor | None) -> tuple[Tensor, Tensor]:
    """Numbers (k,) of samples no two of which are equal in all parts (n, …), in an order that hangs on what they hold
    alone; and for each sample (n,) which of them it equals."""
    _, index, copies = np.unique(digests(*parts), return_index=True, return_inverse=True)
    return torch.from_numpy(index), torch.from_numpy(copies)
