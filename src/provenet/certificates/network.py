"""The certificate of a network on a problem, computed anew from its weights and the data."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from provenet import batches
from provenet.certificates.certificate import Certificate, certificate_of
from provenet.certificates.everyone import Everyone
from provenet.certificates.gap import judged
from provenet.certificates.points import check_same_map, predicted, relu_point, without_bias
from provenet.data.shards import Shards
from provenet.problem import Problem


@torch.inference_mode(False)
def network_certificate(
    problem: Problem,
    network: nn.Module,
    tol: float = 1e-4,
    theta: Tensor | None = None,
    said: Tensor | None = None,
) -> Certificate:
    """The certificate of ``network`` on ``problem``: any network of its block, however it was trained.

    Everything is recomputed here in float64 from the network's weights and the data: the primal from the
    network's own forward pass and weight decay, the dual from the gradient of the loss there; or from ``theta``, the
    dual point of an earlier certificate, where that is of these samples and proves more.  ``said``: what it says of
    them without its free intercept, where whoever made it has just gone over the data for that.
    """
    with batches.within(None if problem.memory is None else problem.memory.left):
        try:
            return _network_certificate(problem, network, tol, theta, said)
        finally:  # after it, for they might change meanwhile; where it fails, they may be the reason
            check_same_data(problem)


def check_same_data(problem: Problem) -> None:
    """That samples which are not in memory are those that the problem was posed on."""
    samples: Any = problem.X
    if isinstance(samples, Shards):
        samples.check_unchanged()


def _network_certificate(
    problem: Problem, network: nn.Module, tol: float, theta: Tensor | None, said: Tensor | None
) -> Certificate:
    network = copy.deepcopy(problem.inward(network)).to(dtype=torch.float64).eval()
    if theta is not None and theta.shape != problem.loss.target.shape:
        theta = None
    if theta is not None:
        theta = theta.to(torch.float64) / problem.units.dual
    if problem.statement.beyond_gates:
        return _among_everyone(problem, network, tol, theta)
    if problem.activation == "relu":  # its primal is its own forward pass, whatever its neurons' arrangements are
        prediction, factors, bias = relu_point(problem, network, said)
    else:
        network, bias = without_bias(problem, network)
        factors = problem.factors(network)
        prediction = (predicted(problem, network) if said is None else said) / problem.units.y
        convex = problem.program.operator.forward_factors(factors)
        check_same_map(convex, prediction, float(problem.program.loss.target.abs().max()))
    units = problem.beta, problem.units.value
    more: dict[str, Any] = {"penalty": problem.penalty, "standardized": problem.scaling is not None}
    own = certificate_of(problem.program, prediction, factors, *units, problem.scope, tol, intercept=bias, **more)
    return own if theta is None or own.holds(tol) else own.sharpened_by(problem, judged(problem.program, theta))


def _among_everyone(problem: Problem, network: Any, tol: float, theta: Tensor | None) -> Certificate:
    """Whatever the listed gates prove, it is not of networks beyond them: only what is bounded over all u counts."""
    everyone = Everyone.of(problem)
    if everyone is None:
        raise ValueError(
            f"problem: it speaks of all ReLU networks of block {problem.block.name!r}, whose pull can be bounded only "
            "where the rows of the data are a table in the memory of one process, without a mask."
        )
    return everyone.judged(network, tol, theta, closely=True)[0]
