"""A ReLU solution behind some gates, judged among all ReLU networks of its block: the bound over all u."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from provenet.certificates import Everyone
from provenet.gauges.prox.mixed import WEIGHT_DECAY
from provenet.problem import Problem
from provenet.solvers.solution import Solution

_LOOSE = 0.05  # a bound that is so much above the strongest pull that was found says nothing of gates that lack


class Widened(NamedTuple):
    """``solution``: with a certificate among all networks, if that holds to the tolerance, else as it was.

    ``u`` (1, p): the direction that was found to pull hardest; None where the bound is too loose to hope for more by
    adding it."""

    solution: Solution
    u: Tensor | None

    @property
    def holds(self) -> bool:
        return self.solution.problem.statement.beyond_gates


def widened(solution: Solution, tol: float) -> Widened:
    """The solution, among all networks where their pull can be bounded well enough; its problem then says so, too."""
    problem = solution.problem
    can = problem.activation == "relu" and not problem.statement.complete and problem.penalty == WEIGHT_DECAY
    everyone = Everyone.of(problem) if can else None
    if everyone is None:
        return Widened(solution, None)
    theta = solution.certificate.theta
    network: Any = problem.network(solution.factors, solution.bias)
    point = None if theta is None else theta / problem.units.dual
    certificate, found = everyone.judged(network, tol, point, closely=True)
    if certificate.holds(tol):
        wide = replace(problem, statement=replace(problem.statement, beyond_gates=True))
        best = replace(solution, problem=wide, certificate=certificate, lower_bound=certificate.dual)
        return Widened(best, found.u[None])
    loose = found.upper > (1 + _LOOSE) * max(found.lower, problem.program.beta)
    return Widened(solution, None if loose else found.u[None])


def within_gates(problem: Problem) -> Problem:
    """The problem among networks with its gates: what methods solve, and prove."""
    if not problem.statement.beyond_gates:
        return problem
    return replace(problem, statement=replace(problem.statement, beyond_gates=False))
