"""The independent checker's opinion of a network for a problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from provenet.problem import Problem
from provenet.verify import Data, Statement, Verdict, Weights, verify


def second_opinion(problem: Problem, network: nn.Module, data: Data | None = None) -> Verdict:
    """That of `provenet.verify`, which shares no code with the certificate.

    ``data``: the arrays the problem was posed with, where not even those should be taken from the problem.
    """
    if data is None:
        weight = problem.loss.sample_weight.numpy()
        data = Data(problem.X.numpy(), problem.loss.target.numpy(), weight, _array(problem.mask))
    first, second, gates, group, relu = problem.block.neurons(network, problem.readout)
    settings = dict(problem.block.settings())
    transform = settings.pop("function", None)  # of tokens, which the checker takes as they are after it
    if transform is not None:
        data = replace(data, X=transform(torch.as_tensor(data.X, dtype=torch.float64)).numpy())
    statement = Statement(
        loss=problem.loss.name,
        beta=problem.beta,
        block=problem.block.name,
        settings=settings,
        delta=getattr(problem.loss, "delta", 1.0),
        readout=problem.readout,
        gate_vectors=_array(problem.gate_vectors),
        gate_group=_array(problem.gates.group),
        relu=relu,
        penalty=problem.penalty,
    )
    return verify(data, Weights(first.numpy(), second.numpy(), _array(gates), _array(group)), statement)


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.numpy()
