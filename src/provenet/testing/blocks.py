"""The contract of a block."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from provenet.blocks import Block
from provenet.certificates import network_certificate
from provenet.formulation import formulate
from provenet.gauges import ProxGauge
from provenet.problem import Problem
from provenet.proofs.independent import second_opinion
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors, Stack, factorise
from provenet.verify import Data, Verdict
from provenet.verify.blocks import BLOCKS as VERIFIED

TOL = 1e-11


def check_block(
    block: Block, X: Any, activation: str, outputs: int = 3, seed: int = 0, readout: str = "mean", mask: Any = None
) -> None:
    """network(X) = A(Z); weight decay of the network = gauge of Z; and back again, from either side (AT App. A).

    On data far from unit scale, so that the change of units is seen; the network's objective is `verify`'s, where that
    knows the block.

    Parameters
    ----------
    block : Block
        Yours.
    X : array
        A few samples.
    activation : str
        "linear", "gated_relu" or "relu".
    outputs : int, default 3
        c.
    seed : int, default 0
        Of the numbers that are drawn.
    readout : str
        "mean" or "tokens".
    mask : array (n, s), optional
        Which tokens are there.
    """
    for x_scale, y_scale in ((1.0, 1.0), (1e3, 1e-2), (1e-5, 1e4)):
        samples = torch.as_tensor(X, dtype=torch.float64) * x_scale
        generator = torch.Generator().manual_seed(seed)
        tokens = (samples.shape[1],) if readout == "tokens" else ()
        Y = normal(generator, samples.shape[0], *tokens, outputs) * y_scale
        problem = formulate(
            block, samples, Y, activation=activation, gates=5, beta=0.1, readout=readout, seed=seed, mask=mask
        )
        empty: Any = problem.network(Factors.empty(*problem.program.operator.stack_shape[1:]))
        assert_close(_outputs(problem, empty, samples), torch.zeros_like(Y), 0.0, "a network without neurons")
        if activation == "relu":
            network = _check_in_cones(problem, samples, generator)
        else:
            _check_from_stack(problem, samples, generator)
            network = _check_from_network(problem, samples, generator)
        known = block.name in VERIFIED
        verdict = second_opinion(problem, network, Data(samples, Y, mask=mask)) if known else None
        _check_certificate(problem, network, samples, verdict)


def _check_in_cones(problem: Problem, samples: Tensor, generator: torch.Generator) -> Any:
    """Neurons in their cones → network: what it says, and what it costs."""
    op = problem.program.operator
    gate = torch.arange(op.n_gates).repeat(2)
    some = Factors(normal(generator, len(gate), op.p), normal(generator, len(gate), op.q), gate)
    neurons = problem.program.gauge.inside(some)
    network: Any = problem.network(neurons)
    expected = op.forward_factors(neurons) * problem.units.y
    assert_close(_outputs(problem, network, samples), expected, TOL, "network(X) = A(Z)")
    assert_close(network.penalty().detach(), neurons.penalty() * problem.units.z, TOL, "weight decay")
    return network


def _check_from_stack(problem: Problem, samples: Tensor, generator: torch.Generator) -> None:
    """Z → network → Z."""
    op = problem.program.operator
    stack = normal(generator, *op.stack_shape)
    network: Any = problem.network(factorise(stack))
    expected = op.forward(stack) * problem.units.y
    assert_close(_outputs(problem, network, samples), expected, TOL, "network(X) = A(Z)")
    assert_close(network.penalty().detach(), _gauge(problem, stack) * problem.units.z, TOL, "weight decay = gauge")
    assert_close(problem.factors(network).stack(op.n_gates), stack, TOL, "network → factors")
    assert_close(
        _objective(problem, network, samples),
        _convex_objective(problem, stack),
        TOL,
        "the objective in the user's units",
    )


def _check_from_network(problem: Problem, samples: Tensor, generator: torch.Generator) -> Any:
    """Network → Z → network: the same function, at no higher a price."""
    P, p, q = problem.program.operator.stack_shape
    gate = torch.randint(P, (2 * P + 3,), generator=generator)
    neurons = Factors(normal(generator, len(gate), p), normal(generator, len(gate), q), gate)
    network: Any = problem.network(neurons)
    stack = problem.factors(network).stack(P)
    again: Any = problem.network(factorise(stack))
    outputs = _outputs(problem, network, samples)
    size = float(outputs.abs().max())
    assert_close(_outputs(problem, again, samples), outputs, 10 * TOL, "network → Z → network", size)
    objective, lower = (float(_objective(problem, module, samples)) for module in (network, again))
    assert lower <= objective * (1 + TOL), f"the convex weights' network costs {lower}, more than {objective}"
    value = float(_convex_objective(problem, stack))
    assert abs(lower - value) <= 10 * TOL * value, f"Z has the objective {value}, its network {lower}"
    return network


def _check_certificate(problem: Problem, network: Any, samples: Tensor, verdict: Verdict | None) -> None:
    """The objective, its lower bound and the polar, by the certificate and by the independent checker."""
    found = network_certificate(problem, network)
    objective = float(_objective(problem, network, samples))
    assert abs(objective - found.primal) <= TOL * objective, f"the network's objective is {objective}, not {found}"
    assert found.dual <= found.primal, f"certificate: a negative gap {found.gap}"
    if verdict is None:
        return
    size = abs(verdict.primal)
    assert abs(objective - verdict.primal) <= TOL * size, f"the network's objective is {objective}, verify: {verdict}"
    if problem.activation == "relu":  # whose polars are bounded by each in its own way
        assert verdict.dual <= objective, f"verify: a negative gap {verdict.gap}"
        return
    for name, allowed in (("primal", size), ("dual", size), ("polar_max", verdict.polar_max)):
        mine, other = getattr(found, name), getattr(verdict, name)
        assert abs(mine - other) <= 1e-9 * allowed, f"certificate: {name} is {mine}, by verify {other}"


def _gauge(problem: Problem, stack: Stack) -> Tensor:
    """Σ_k γ(Z_k)."""
    gauge = problem.program.gauge
    assert isinstance(gauge, ProxGauge)
    return gauge.value(stack)


def _convex_objective(problem: Problem, stack: Stack) -> Tensor:
    """L(A(Z)) + β Σ_k γ(Z_k), in the user's units."""
    program = problem.program
    fit = program.loss.value(program.operator.forward(stack))
    return (fit + program.beta * _gauge(problem, stack)) * problem.units.value


def _outputs(problem: Problem, network: Any, samples: Tensor) -> Tensor:
    with torch.no_grad():
        return network(samples) if problem.mask is None else network(samples, problem.mask)


def _objective(problem: Problem, network: Any, samples: Tensor) -> Tensor:
    return problem.loss.value(_outputs(problem, network, samples)) + problem.beta * network.penalty().detach()
