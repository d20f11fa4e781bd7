"""ReLU programs with one output, cone constraints and all: against Clarabel, and against the clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import provenet as pn
from benchmarks import peers
from benchmarks.peers import Result, best_of


class Target(NamedTuple):
    """n, d, P; the gap asked for; how many times faster than Clarabel, or in how many seconds; runs of each."""

    n: int
    d: int
    gates: int
    tol: float
    faster: float | None = None
    seconds: float | None = None
    repeats: int = 1

    @property
    def name(self) -> str:
        return f"ReLU, one output {self.n} × {self.d}, P = {self.gates}, β = .01 β_max"

    @property
    def words(self) -> str:
        return f"≤ {self.tol:g}, " + (f"{self.faster:g}×" if self.faster else f"in {self.seconds:g} s")

    def met(self, ours: Result, theirs: Result | None) -> bool:
        fast = self.faster is None or (theirs is not None and theirs.seconds >= self.faster * ours.seconds)
        return ours.relative_gap <= self.tol and fast and (self.seconds is None or ours.seconds <= self.seconds)


TARGETS = (
    Target(150, 2, 100, 1e-8, faster=1, repeats=3),
    Target(1000, 20, 100, 1e-6, faster=8),
    Target(2000, 50, 500, 1e-4, seconds=60),
)


def teacher(n: int, d: int, gates: int, seed: int = 0) -> pn.Problem:
    """Gaussian inputs, one output of ten ReLU neurons with a little noise; β = .01 β_max."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.maximum(X @ rng.standard_normal((d, 10)), 0) @ rng.standard_normal(10) + 0.1 * rng.standard_normal(n)
    problem = pn.formulate("mlp", X, y, activation="relu", gates=gates)
    return problem.with_beta(0.01 * problem.beta_max)


def measure(target: Target) -> tuple[Result, Result | None]:
    """Ours and, where it is asked for, Clarabel's through CVXPY."""
    problem = teacher(target.n, target.d, target.gates)
    ours = best_of(target.repeats, target.name, lambda: peers.provenet(problem, target.tol))
    if not target.faster:
        return ours, None
    return ours, best_of(target.repeats, f"{target.name}: Clarabel", lambda: peers.clarabel(problem))
