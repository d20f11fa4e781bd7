"""A gated network as a ReLU network: u = a − b with a, b in the gate's cone (Mishkin, Sahiner and Pilanci 2022).

Behind gate k the neuron (u, v) computes D_kΦu vᵀ, and so do the ReLU neurons (a, v) and (b, −v) together, as
D_kΦa = σ(Φa) in the cone.  The function stays, the penalty grows; by how much the ReLU program's own gap says.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from provenet.certificates import network_certificate
from provenet.cones import Cones
from provenet.cones.values import split
from provenet.gauges import ConeNuclear
from provenet.problem import Problem
from provenet.solvers.cones.faces import Region
from provenet.solvers.cones.frank_wolfe import balanced, fully_corrected
from provenet.solvers.neurons.place import place
from provenet.solvers.solution import Solution
from provenet.solvers.status import Status
from provenet.variable import Factors

_UNKNOWNS = 1_200  # second layers up to this size are solved for together


def to_relu(solution: Solution, problem: Problem, tol: float = 1e-4, correct: bool = True) -> Solution:
    """A gated solution as a network of the ReLU ``problem`` with the same data and gates, and its certificate there.

    A feasible point near the best one where cones are wide, and a start: ``solve(problem, start=to_relu(…))``.
    ``correct``: the second layers are then made the best for these first layers, where they are few; else the network
    computes, on the problem's data, exactly what the gated one does.
    """
    began = time.perf_counter()
    gated = solution.problem
    _check_pair(gated, problem)
    gauge = problem.program.gauge
    assert isinstance(gauge, ConeNuclear)
    assert gauge.region is not None
    factors = decompose(gauge.region, solution.factors)
    if correct and factors.n_neurons * factors.right.shape[1] <= _UNKNOWNS:
        before, after = place(problem.program, factors), fully_corrected(problem.program, factors, None)
        factors = min(before, after, key=lambda at: at.value).factors
    factors = Factors(gauge.region.pulled_inside(factors.left, factors.gate), factors.right, factors.gate)
    certificate = network_certificate(problem, problem.network(factors), tol)
    status = Status.SOLVED if certificate.holds(tol) else Status.STALLED
    seconds = time.perf_counter() - began
    return Solution(problem, "decomposition", status, factors, certificate, 0, seconds, lower_bound=certificate.dual)


def decompose(region: Region, factors: Factors) -> Factors:
    """Each neuron (u, v) as (a, v) and (b, −v) with a, b in its gate's cone; Σ uvᵀ of every gate stays."""
    a, b = _cheapest(region, factors) if isinstance(region, Cones) else _shifted(region, factors)
    both = Factors.join(Factors(a, factors.right, factors.gate), Factors(b, -factors.right, factors.gate))
    return balanced(both)


def _cheapest(cones: Cones, factors: Factors) -> tuple[Tensor, Tensor]:
    """min ‖a‖ + ‖b‖; where u, or −u, is in the cone already, it is one of them."""
    _, _, a, b = split(cones.restrict(factors.gate), factors.left)
    slack = cones.slack(factors.left, factors.gate)
    inside, opposite = (slack >= 0).all(1, keepdim=True), (slack <= 0).all(1, keepdim=True)
    zero = torch.zeros_like(a)
    a = torch.where(inside, factors.left, torch.where(opposite, zero, a))
    return a, torch.where(inside, zero, torch.where(opposite, -factors.left, b))


def _shifted(region: Region, factors: Factors) -> tuple[Tensor, Tensor]:
    """a = u + tg, b = tg along the gate's own vector g: feasible, and dear where the cone is narrow."""
    g = region.inside[factors.gate]
    a = region.pulled_inside(factors.left, factors.gate)
    return a, ((a - factors.left) * g).sum(1, keepdim=True).clamp_min(0) / g.square().sum(1, keepdim=True) * g


def _check_pair(gated: Problem, relu: Problem) -> None:
    if gated.activation != "gated_relu" or relu.activation != "relu":
        raise ValueError(
            f"solution, problem: a gated_relu solution and a relu problem are needed, got {gated.activation} and "
            f"{relu.activation}."
        )
    same = gated.patterns.shape == relu.patterns.shape and torch.equal(gated.patterns, relu.patterns)
    if not same or gated.block != relu.block or gated.X.shape != relu.X.shape or not torch.equal(gated.X, relu.X):
        raise ValueError(
            "problem: it has other data or gates than the solution's; formulate it on the same data with "
            "activation='relu', gates=solution.problem.gate_vectors."
        )
