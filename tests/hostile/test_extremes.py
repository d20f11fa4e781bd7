"""X, Y, β and weights at the ends of float64's range: a true certificate, or a sentence that says what is too much."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

import provenet as pn
from provenet.proofs.independent import second_opinion
from provenet.solvers import METHODS

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 2)), RNG.standard_normal((6, 2))
SIZES = (1e-300, 1e-150, 1e-30, 1.0, 1e30, 1e150, 1e300)
PROGRAMS = ("gated_relu", "squared", 2), ("relu", "squared", 2), ("relu", "huber", 1), ("linear", "logistic", 1)

# X, Y, β, weights: each alone, and X and β together, of which the program sees the ratio
GRID = sorted(
    {(SIZES[i], 1.0, SIZES[j], 1.0) for i, j in itertools.product(range(7), range(7)) if (i + j) % 2 == 0}
    | {(1.0, a, 1e-3, 1.0) for a in SIZES}
    | {(1.0, 1.0, 1e-3, a) for a in SIZES}
    | {(a, 1 / a, 1e-3, 1.0) for a in SIZES}
)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.filterwarnings("ignore:cvx. CLARABEL failed:RuntimeWarning", "ignore::UserWarning")
def test_a_certificate_or_a_sentence(method: str) -> None:
    taken = 0
    for number, (x, y, beta, weight) in enumerate(GRID):
        activation, loss, outputs = PROGRAMS[number % len(PROGRAMS)]
        target = (Y[:, :outputs] > 0) * 1.0 if loss == "logistic" else y * Y[:, :outputs]
        settings = {"gates": 3, "loss": loss, "beta": beta, "sample_weight": np.full(6, weight)}
        if method == "line_frank_wolfe":  # which is for sums of lengths along axes
            settings["penalty"] = (1, 1)
        try:
            problem = pn.formulate("mlp", x * X, target, activation, **settings)  # type: ignore[arg-type]
            solution = pn.solve(problem, method, max_steps=3, max_seconds=1.0)
        except ValueError as error:
            if ": " not in str(error):  # what it is about, and why
                raise
            continue
        taken += 1
        assert -1e-12 <= solution.certificate.relative_gap <= 1 + 1e-12, (x, y, beta, weight)
        assert solution.lower_bound <= solution.certificate.primal * (1 + 1e-12), (x, y, beta, weight)
    assert taken > 0 or method in ("closed_form", "copositive_admm")  # which need whitened data


@pytest.mark.parametrize(("x", "beta"), [(1.0, 1e-300), (1e300, 1e-3)])
def test_a_beta_below_all_rounding_is_no_crash(x: float, beta: float) -> None:
    """Here the working set of the interior point has no first centre."""
    rng = np.random.default_rng(0)
    data, target = x * rng.standard_normal((20, 3)), rng.standard_normal((20, 1))
    solution = pn.solve(pn.formulate("mlp", data, target, gates=10, beta=beta), max_seconds=2.0)
    assert "ipm" in solution.method
    assert 0 <= solution.certificate.relative_gap <= 1


def test_without_assertions_the_same_sentences() -> None:
    """`python -O` strips assertions: none may guard what a user hands in."""
    script = """
import numpy as np, provenet as pn
X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 1.0]])
for settings in ({"beta": 1e-300}, {"beta": -1.0}, {"gates": 0}, {"gates": [[0.0, 0.0]], "activation": "relu"},
                 {"loss": "softmax"}, {"activation": "relu", "penalty": (1, 1)}):
    for method in ("auto", "ipm", "working_set", "copositive", "closed_form", "admm"):
        try:
            pn.solve(pn.formulate("mlp", X, [[1.0], [2.0], [3.0]], **settings), method, max_steps=3)
        except ValueError as error:
            if ": " not in str(error):
                raise
"""
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore:solve stopped")
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("features", [2, 3])
def test_the_checker_judges_relu_networks_of_huge_samples(features: int, outputs: int) -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((5, features)) * 1e300, rng.integers(0, 2, (5, outputs)).astype(float)
    problem = pn.formulate("mlp", X, Y, "relu", 3, "logistic", 1e3)
    found = pn.solve(problem, max_seconds=0.3)
    verdict = second_opinion(problem, found.network(), theta=found.certificate.theta)
    assert verdict.dual <= verdict.primal
    assert verdict.primal == pytest.approx(found.certificate.primal)
