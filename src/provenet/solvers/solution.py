"""What `solve` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from provenet.certificates import Certificate
from provenet.problem import Problem
from provenet.solvers.loop import Method, Record
from provenet.solvers.status import Status
from provenet.variable import Factors


@dataclass(frozen=True, repr=False)
class Solution:
    """The best point of a run.

    Parameters
    ----------
    problem : Problem
        With the gates it has in the end.
    method : str
        What ran.
    status : Status
        How the run ended.
    factors : Factors
        The neurons, in the problem's normalised units; `network` is what to use.
    certificate : Certificate
        Of the network.
    steps : int
        Of all methods that ran.
    seconds : float
        By the clock.
    history : list of Record
        Objective and bound at each look, in the user's units.
    lower_bound : float
        The best bound of p* that the run has seen, at least the certificate's.  A relaxation may prove more than the
        network it leads to; what a certificate says can be checked from the network alone.
    asked : str or Method
        What was asked for: a name, or a method with its settings.
    bias : Tensor, optional
        The free intercept of the network; None: there is none, or the best for these neurons is to be found.
    """

    problem: Problem
    method: str
    status: Status
    factors: Factors
    certificate: Certificate
    steps: int
    seconds: float
    history: list[Record] = field(default_factory=list)
    lower_bound: float = -math.inf
    asked: str | Method[Any] = "auto"
    bias: Tensor | None = None

    def network(self) -> nn.Module:
        """An ordinary torch network, in float64; the certificate speaks of exactly these weights.

        Of a standardised problem it takes raw samples: `provenet.nn.Standardised`."""
        return self.problem.outward(self.problem.network(self.factors, self.bias))

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.value} by {self.method!r}: {self.factors.n_neurons} neurons, "
            f"relative gap {max(self.certificate.relative_gap, 0.0):.1e}, {self.certificate.status})"
        )

    def __str__(self) -> str:
        head = f"{self.method}: {self.status.value} in {self.steps} steps, {self.seconds:.3g} s, "
        return head + f"{self.factors.n_neurons} neurons\n{self.certificate}"
