"""What a solution is made of: its gates, their singular values, and how hard each gate pulls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from provenet.report.nouns import nouns
from provenet.solvers import Solution

_NOTHING = 1e-6  # singular values below this share of the largest are rounding, not neurons


@dataclass(frozen=True)
class Anatomy:
    """spectrum: gate → singular values of Z_k, falling, in the data's units.  pull: γ_k°(A_k*Θ)/β of each gate (P,).

    negligible: how many singular values were too small to count.  noun: what a neuron is called.
    """

    spectrum: dict[int, np.ndarray]
    pull: np.ndarray
    negligible: int
    noun: str = "neuron"

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
    def singular_values(self) -> np.ndarray:
        """Of all gates, falling."""
        return np.sort(np.concatenate([np.zeros(0), *self.spectrum.values()]))[::-1]

    @property
    def n_neurons(self) -> int:
        """Neurons needed: the sum of the ranks."""
        return self.singular_values.size

    @cached_property
    def ranks(self) -> dict[int, int]:
        """rank → how many active gates have it."""
        rank, times = np.unique([s.size for s in self.spectrum.values()], return_counts=True)
        return {int(r): int(t) for r, t in zip(rank, times, strict=True)}


def dissect(solution: Solution) -> Anatomy:
    problem, factors = solution.problem, solution.factors
    program = problem.program
    raw = {}
    for k in torch.unique(factors.gate).tolist():
        mine = factors.gate == k
        # svdvals(Z_k) for Z_k = UᵀV, from triangles no larger than the number of neurons
        left = torch.linalg.qr(factors.left[mine].T, mode="r").R
        right = torch.linalg.qr(factors.right[mine].T, mode="r").R
        raw[int(k)] = torch.linalg.svdvals(left @ right.T).double().numpy() * problem.unit
    largest = max((s.max() for s in raw.values()), default=0.0)
    kept = {k: s[s > _NOTHING * largest] for k, s in raw.items()}
    negligible = sum(s.size for s in raw.values()) - sum(s.size for s in kept.values())
    theta = program.loss.gradient(program.operator.forward_factors(factors.to(program.operator.dtype)))
    pull = program.polar(theta).upper.double().numpy() / program.beta
    return Anatomy({k: s for k, s in kept.items() if s.size}, pull, negligible, nouns(problem).neuron)
