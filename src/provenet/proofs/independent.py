"""The independent checker's opinion of a network for a problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from provenet.problem import Problem
from provenet.verify import Data, Standard, Statement, Verdict, Weights, verify


def second_opinion(
    problem: Problem, network: nn.Module, data: Data | None = None, theta: Tensor | None = None
) -> Verdict:
    """That of `provenet.verify`, which shares no code with the certificate.

    ``data``: the arrays the problem was posed with, where not even those should be taken from the problem; of a
    standardised one they are raw, and standardised a second time in other code.
    ``theta``: the dual point of a certificate, where that is not the network's own.
    """
    told = problem.statement
    settings = dict(told.block.settings())
    transform = settings.pop("function", None)  # of tokens, which the checker takes as they are after it
    scaling, standard = problem.scaling, None
    if data is not None and scaling is not None and transform is None:
        standard = Standard(**{name: value.numpy() for name, value in scaling.tensors().items()})
    elif data is None or scaling is not None:
        weight = problem.loss.sample_weight.numpy()
        data = Data(problem.X.numpy(), problem.loss.target.numpy(), weight, _array(problem.mask))
    if transform is not None:
        data = replace(data, X=transform(torch.as_tensor(data.X, dtype=torch.float64)).numpy())
    network = problem.inward(network)
    first, second, gates, group, relu = told.block.neurons(network, told.readout)
    statement = Statement(
        loss=told.loss.name,
        beta=told.beta,
        block=told.block.name,
        settings=settings,
        **told.loss_settings,
        readout=told.readout,
        gate_vectors=None if told.beyond_gates else _array(problem.gates.vectors),
        all_arrangements=told.beyond_gates,
        gate_group=_array(problem.gates.group),
        relu=relu,
        penalty=told.penalty,
        free_intercept=told.free_intercept,
        standard=standard,
    )
    bias = getattr(network, "bias", None)
    weights = Weights(first.numpy(), second.numpy(), _array(gates), _array(group), _array(bias))
    return verify(data, weights, statement, _array(theta))


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().numpy()
