"""A stage small enough to be posed as a whole: solved, and certified as any problem is."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import Certificate, network_certificate
from provenet.formulation import Wanted, pose
from provenet.layerwise.inputs import Inputs
from provenet.layerwise.layer import Layer
from provenet.nn import TwoLayer
from provenet.problem import Problem
from provenet.proofs.streamed import OwnGates
from provenet.solvers import Limits, Record
from provenet.solvers.solve import solve_quietly
from provenet.solvers.status import Status
from provenet.statement import Statement
from provenet.variable import Factors

_SMALL = 2e7  # numbers of gated, pooled features: problems up to this are solved in seconds
_MOST_SAMPLES = 20_000


@dataclass(frozen=True)
class Solved:
    """network: in float32, as the deep one has it; certificate: of that.  kept: the neurons passed on; None: all.
    complete: whether no Ctrl-C cut it short.  begun: whether a method had time for a step."""

    network: TwoLayer
    certificate: Certificate
    kept: Tensor | None
    complete: bool = True
    begun: bool = True


def is_small(layer: Layer, inputs: Inputs, outputs: int) -> bool:
    """Whether `provenet.solve` is the quick way: by n, gates, and the sizes of a neuron's layers."""
    one = torch.zeros(1, *inputs.shape, dtype=torch.float64)
    p, q = layer.made_block.weights(one, outputs)
    gates = 1 if layer.activation == "linear" else layer.n_gates or 1
    return inputs.total <= _MOST_SAMPLES and inputs.total * gates * p * max(1, q // outputs) <= _SMALL


def posed(at: Callable[[float], Statement], layer: Layer, inputs: Inputs, targets: Tensor, seed: int) -> Problem:
    """The stage's problem: its block's own, on what the stage sees, with gates that float32 holds exactly.

    at: β → what is minimised.
    """
    samples = torch.cat(list(inputs.parts())).to(torch.float64)

    problem = pose(at(1.0), samples, targets, Wanted.of("gaussian", layer.n_gates), seed=seed)
    if layer.activation != "linear":
        if layer.gates != "gaussian":  # they may depend on β
            wanted = Wanted.of(layer.gates, layer.n_gates)
            problem = pose(at(layer.decay.of(problem)), samples, targets, wanted, seed=seed)
        assert problem.gates.vectors is not None
        vectors = problem.gates.vectors.float().to(torch.float64)
        problem = pose(at(1.0), samples, targets, vectors, gate_group=problem.gates.group)
    return problem.with_beta(layer.decay.of(problem))


def finished(
    network: TwoLayer, statement: Statement, inputs: Inputs, targets: Tensor, rank: int, limits: Limits
) -> Solved:
    """A gated network that was trained in batches, trained on by L-BFGS on all samples, behind its own gates."""
    vectors, group = OwnGates(statement.block, copy.deepcopy(network).to(torch.float64)).used
    samples = torch.cat(list(inputs.parts())).to(torch.float64)
    problem = pose(statement, samples, targets, vectors, gate_group=group)
    return solved(problem, rank, limits, None, "lbfgs", network)


def solved(
    problem: Problem,
    rank: int,
    limits: Limits,
    tell: Callable[[Record], None] | None,
    method: str = "auto",
    start: TwoLayer | None = None,
) -> Solved:
    """The best network, its weights rounded to float32 and certified so; of every gate its ``rank`` strongest neurons
    are passed on."""
    seconds, began = limits.max_seconds, time.perf_counter()
    solution = solve_quietly(problem, method, limits, start, callback=tell)
    factors = solution.factors
    network = problem.network(factors).float()
    assert isinstance(network, TwoLayer)
    with deadline.within(
        None if seconds is None else seconds + deadline.grace(seconds) - (time.perf_counter() - began)
    ):
        certificate = network_certificate(problem, network, limits.tol)
    certificate = certificate.sharpened(solution.certificate)
    complete = solution.status is not Status.INTERRUPTED
    return Solved(network, certificate, strongest(factors, rank), complete, solution.steps > 0)


def strongest(factors: Factors, rank: int) -> Tensor | None:
    """The ``rank`` neurons of every gate with the largest ‖u‖‖v‖, in their order; None where that is all."""
    order = torch.argsort(factors.sizes(), descending=True, stable=True)
    seen: dict[int, int] = {}
    kept = []
    for j in order.tolist():
        gate = int(factors.gate[j])
        seen[gate] = seen.get(gate, 0) + 1
        if seen[gate] <= rank:
            kept.append(j)
    return None if len(kept) == factors.n_neurons else torch.tensor(sorted(kept), dtype=torch.long)
