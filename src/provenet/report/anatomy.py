"""What a solution is made of: its gates, the sizes of what is behind them, and how hard each gate pulls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from provenet import deadline
from provenet.gauges.prox.mixed import WEIGHT_DECAY, norms
from provenet.problem import Problem
from provenet.report.nouns import nouns
from provenet.solvers import Solution
from provenet.variable import Factors

_SECONDS = 5.0  # that bounds of the pulls may take, where they are bounds
_NOTHING = 1e-6  # sizes below this share of the largest are rounding, not neurons


@dataclass(frozen=True)
class Anatomy:
    """spectrum: gate → what its neurons cost, falling, in the data's units: singular values of Z_k where they ``mix``,
    else the products ‖u_j‖_C‖v_j‖_R.  pull: γ_k°(A_k*Θ)/β of each gate (P,), or, where ``at_most``, upper bounds of it,
    good where they are largest.

    negligible: how many sizes were too small to count.  noun: what a neuron is called.  gauge: the name of what the
    sizes of a gate add up to.
    """

    spectrum: dict[int, np.ndarray]
    pull: np.ndarray
    negligible: int
    noun: str = "neuron"
    mix: bool = True
    gauge: str = "nuclear norm"
    at_most: bool = False

    @cached_property
    def by_weight(self) -> list[tuple[int, np.ndarray]]:
        """Active gates, the heaviest first."""
        return sorted(self.spectrum.items(), key=lambda item: -item[1].sum())

    @property
    def n_gates(self) -> int:
        return self.pull.size

    @property
    def n_active(self) -> int:
        return len(self.spectrum)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Of all gates, falling."""
        return np.sort(np.concatenate([np.zeros(0), *self.spectrum.values()]))[::-1]

    @property
    def n_neurons(self) -> int:
        """Neurons needed: the sum of the ranks, where they mix."""
        return self.sizes.size

    @cached_property
    def ranks(self) -> dict[int, int]:
        """rank, or number of neurons → how many active gates have it."""
        rank, times = np.unique([s.size for s in self.spectrum.values()], return_counts=True)
        return {int(r): int(t) for r, t in zip(rank, times, strict=True)}


def dissect(solution: Solution) -> Anatomy:
    problem, factors = solution.problem, solution.factors
    program = problem.program
    gates = torch.unique(factors.gate).tolist()
    raw = {int(k): _sizes(problem, factors.select(factors.gate == k)).double().numpy() * problem.units.z for k in gates}
    largest = max((s.max() for s in raw.values()), default=0.0)
    kept = {k: s[s > _NOTHING * largest] for k, s in raw.items()}
    negligible = sum(s.size for s in raw.values()) - sum(s.size for s in kept.values())
    theta = program.loss.gradient(program.operator.forward_factors(factors.to(program.operator.space)))
    at_most = not program.gauge.exact_polar
    with deadline.within(_SECONDS if at_most else None):
        pull = program.polar(theta).upper.double().numpy() / program.beta
    spectrum = {k: s for k, s in kept.items() if s.size}
    return Anatomy(spectrum, pull, negligible, nouns(problem).neuron, _mix(problem), _gauge(problem), at_most)


def _mix(problem: Problem) -> bool:
    """Whether neurons of a gate may be mixed at no cost, U → UQ and V → VQ: weight decay allows it, cones do not."""
    return problem.penalty == WEIGHT_DECAY and problem.activation != "relu"


def _gauge(problem: Problem) -> str:
    if problem.penalty != WEIGHT_DECAY:
        return "product of norms"
    return "cone-nuclear norm" if problem.activation == "relu" else "nuclear norm"


def _sizes(problem: Problem, neurons: Factors) -> Tensor:
    """What the neurons of one gate cost, falling: singular values of Z_k = UᵀV, or products of other norms."""
    if not _mix(problem):
        first, second = problem.penalty
        return (norms(neurons.left, first) * norms(neurons.right, second)).sort(descending=True).values
    # from triangles no larger than the number of neurons
    left = torch.linalg.qr(neurons.left.T, mode="r").R
    right = torch.linalg.qr(neurons.right.T, mode="r").R
    return torch.linalg.svdvals(left @ right.T)
