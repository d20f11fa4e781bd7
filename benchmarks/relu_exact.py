"""ReLU programs over all arrangements: CP §5.1, the spiral of its Fig. 3, and its closed form at the size of §5.2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.fft

import provenet as pn
from benchmarks.peers import Result, best_of, provenet
from provenet.data.demo import spiral
from provenet.solvers.cones.closed_form import ClosedForm


class Case(NamedTuple):
    name: str
    ours: Result
    tol: float
    seconds: float

    @property
    def words(self) -> str:
        return f"≤ {self.tol:g} in {self.seconds:g} s"

    @property
    def met(self) -> bool:
        return self.ours.relative_gap <= self.tol and self.ours.seconds < self.seconds


def cases() -> Iterator[Case]:
    teacher = every_arrangement(*planar_teacher(), beta=1e-2)
    for method in ("auto", "frank_wolfe"):
        name = f"ReLU 25 × 2, c = 5, all {len(teacher.patterns)} arrangements, β = 0.01"
        yield Case(name, best_of(3, f"{name}: {method}", lambda m=method: provenet(teacher, 1e-6, m)), 1e-6, 5)
    X, label = spiral(60)
    for beta in (1e-2, 1e-1, 1.0, 10.0, 100.0):
        problem = every_arrangement(X, np.eye(3)[label], beta)
        name = f"ReLU spiral 60 × 2, c = 3, all {len(problem.patterns)} arrangements, β = {beta:g}"
        yield Case(name, best_of(3, name, lambda p=problem: provenet(p, 1e-6)), 1e-6, 20)
    for classes in (10, 100):
        name = f"ReLU closed form, whitened 3000 × 3072, c = {classes}: the SVD step"
        yield Case(name, best_of(3, name, lambda c=classes: thresholded_svd(c)), 1e-6, 1)


def every_arrangement(X: np.ndarray, Y: np.ndarray, beta: float) -> pn.Problem:
    return pn.formulate("mlp", X, Y, activation="relu", gates="all", loss="squared", beta=beta)


def planar_teacher(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian X (25, 2), Y (25, 5) of a ReLU network of 100 neurons."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, 2))
    return X, np.maximum(X @ rng.standard_normal((2, 100)), 0) @ rng.standard_normal((100, 5)) / 10


def thresholded_svd(classes: int, n: int = 3000, d: int = 3072) -> Result:
    """Seconds from the whitened program to its neurons; the gap is that of the network they make."""
    rng = np.random.default_rng(0)
    X = scipy.fft.dct(np.eye(d)[:n] * np.sign(rng.standard_normal(d)), norm="ortho", axis=1)
    problem = every_arrangement(X, np.eye(classes)[np.arange(n) % classes], beta=1.0)
    began = time.perf_counter()
    ClosedForm().init(problem.program, None)
    seconds = time.perf_counter() - began
    solution = pn.solve(problem, "closed_form", tol=1e-6)
    return Result(seconds, solution.certificate.relative_gap, f"{solution.factors.n_neurons} neurons")
