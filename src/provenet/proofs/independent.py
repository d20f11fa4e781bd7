"""The independent checker's opinion of a network for a problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from provenet.problem import Problem
from provenet.verify import Data, Statement, Verdict, Weights, verify


def second_opinion(
    problem: Problem, network: nn.Module, data: Data | None = None, theta: Tensor | None = None
) -> Verdict:
    """That of `provenet.verify`, which shares no code with the certificate.

    ``data``: the arrays the problem was posed with, where not even those should be taken from the problem.
    ``theta``: the dual point of a certificate, where that is not the network's own.
    """
    if data is None:
        weight = problem.loss.sample_weight.numpy()
        data = Data(problem.X.numpy(), problem.loss.target.numpy(), weight, _array(problem.mask))
    told = problem.statement
    settings = dict(told.block.settings())
    transform = settings.pop("function", None)  # of tokens, which the checker takes as they are after it
    if transform is not None:
        data = replace(data, X=transform(torch.as_tensor(data.X, dtype=torch.float64)).numpy())
    first, second, gates, group, relu = told.block.neurons(network, told.readout)
    statement = Statement(
        loss=told.loss.name,
        beta=told.beta,
        block=told.block.name,
        settings=settings,
        **told.loss_settings,
        readout=told.readout,
        gate_vectors=_array(problem.gates.vectors),
        gate_group=_array(problem.gates.group),
        relu=relu,
        penalty=told.penalty,
        free_intercept=told.free_intercept,
    )
    bias = getattr(network, "bias", None)
    weights = Weights(first.numpy(), second.numpy(), _array(gates), _array(group), _array(bias))
    return verify(data, weights, statement, _array(theta))


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().numpy()
