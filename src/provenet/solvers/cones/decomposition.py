"""A gated network as a ReLU network: u = a − b with a, b in the gate's cone (Mishkin, Sahiner and Pilanci 2022).

Behind gate k the neuron (u, v) computes D_kΦu vᵀ, and so do the ReLU neurons (a, v) and (b, −v) together, as
D_kΦa = σ(Φa) in the cone.  The function stays, the penalty grows; by how much the ReLU program's own gap says.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from provenet.certificates import network_certificate
from provenet.cones import Region
from provenet.problem import Problem, Program
from provenet.solvers.cones.frank_wolfe import fully_corrected
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
    program: Program[Any] = problem.program
    factors = decompose(program.gauge.region, solution.factors)
    if correct and factors.n_neurons * factors.right.shape[1] <= _UNKNOWNS:
        before, after = place(program, factors), fully_corrected(program, factors, None)
        factors = min(before, after, key=lambda at: at.value).factors
    factors = program.gauge.inside(factors)
    certificate = network_certificate(problem, problem.network(factors), tol)
    status = Status.SOLVED if certificate.holds(tol) else Status.STALLED
    seconds = time.perf_counter() - began
    return Solution(problem, "decomposition", status, factors, certificate, 0, seconds, lower_bound=certificate.dual)


def decompose(region: Region, factors: Factors) -> Factors:
    """Each neuron (u, v) as (a, v) and (b, −v) with a, b in its gate's cone; Σ uvᵀ of every gate stays."""
    a, b = region.split(factors.left, factors.gate)
    both = Factors.join(Factors(a, factors.right, factors.gate), Factors(b, -factors.right, factors.gate))
    return both.balanced()


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
