"""What a network says on a problem's data, in the program's units and in float64: the point that is certified."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from provenet.blocks.outputs import batch_size, outputs_in_batches
from provenet.problem import Problem
from provenet.space import Space
from provenet.variable import Factors


def relu_point(
    problem: Problem, network: nn.Module, said: Tensor | None = None
) -> tuple[Tensor, Factors, Tensor | None]:
    """A ReLU network's prediction without its free intercept, its neurons and that, in the program's units, in float64;
    their gates are not looked for.  ``said``: that prediction, in the user's units, where it is known."""
    network, bias = without_bias(problem, network)
    first, second, _, group, _ = problem.neurons(network)
    nowhere = torch.zeros(len(first), dtype=torch.long)
    neurons = Factors(first, second, nowhere).to(Space())
    prediction = predicted(problem, network) if said is None else said
    plain = predicted(problem, problem.block.network(neurons, None, problem.readout, group, True))
    check_same_map(plain, prediction, float(problem.loss.target.abs().max()))
    return prediction / problem.units.y, neurons.scaled(problem.units.z**-0.5), bias


def without_bias(problem: Problem, network: nn.Module) -> tuple[nn.Module, Tensor | None]:
    """The network without its free intercept, and that (c,) in the program's units, in float64: added to outputs, a
    large one would round what the neurons say."""
    problem.neurons(network)
    bias = getattr(network, "bias", None)
    if bias is None:
        return network, None
    bare: Any = copy.deepcopy(network)
    bare.bias = None
    return bare, bias.detach().to(torch.float64) / problem.units.y


def predicted(problem: Problem, network: nn.Module) -> Tensor:
    size = batch_size(problem.block, network, problem.X)
    return outputs_in_batches(network, problem.X, problem.mask, size)


class AnotherMap(ValueError):
    """A network that is no function of the convex program's; or outputs so small beside its weights that what they are
    hangs on rounding alone."""


def check_same_map(convex: Tensor, prediction: Tensor, target_size: float) -> None:
    """The network and the convex program must be the same function of the data, or the bound is of another problem."""
    size = float(convex.abs().max()) if convex.numel() else 0.0
    difference = float((convex - prediction).abs().max()) if convex.numel() else 0.0
    if not difference <= 1e-9 * max(size, 1e-300) + 1e-12 * target_size:
        raise AnotherMap(
            f"network: its outputs differ from those of its weights in the convex program by {difference:.3e} "
            f"(outputs up to {size:.3e}). It is not a network of this block with these gates."
        )
