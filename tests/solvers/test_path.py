"""The warm-started path in beta."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

import provenet as pn
from provenet.solvers.path import beta_grid, path


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    return pn.formulate("mlp", X, np.c_[np.abs(X[:, :1]), X[:, 1:2] * X[:, 2:3]], gates=15)


def test_every_solution_is_certified_at_its_beta(problem):
    seen = []
    solutions = path(problem, 6, tol=1e-5, beta_ratio=0.01, progress=seen.append)
    assert seen == solutions
    betas = [s.problem.beta for s in solutions]
    np.testing.assert_allclose(betas, problem.beta_max * np.geomspace(1, 0.01, 6), rtol=1e-12)
    assert [s.certificate.beta for s in solutions] == betas
    assert all(s.certificate.holds(1e-5) for s in solutions)
    assert solutions[0].factors.n_neurons == 0
    for solution in solutions:
        alone = pn.solve(problem.with_beta(solution.problem.beta), tol=1e-5)
        assert solution.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-5)


def test_starts_are_warm(problem):
    """At two almost equal betas the second run is done at its first look."""
    beta = 0.1 * problem.beta_max
    first, second = path(problem, [beta, beta * (1 - 1e-7)], tol=1e-4)
    assert first.steps > 0
    assert second.steps == 0


def test_the_optimal_value_grows_with_beta(problem):
    solutions = path(problem, 5, tol=1e-6, beta_ratio=0.05)
    values = [s.certificate.primal for s in solutions]
    assert all(a > b for a, b in pairwise(values))


def test_ctrl_c_ends_the_path(problem):
    def stop(record):
        return record.step > 0

    solutions = path(problem, 5, tol=1e-8, callback=stop)
    assert solutions[-1].status is pn.Status.INTERRUPTED
    assert len(solutions) < 5


def test_the_limit_is_of_the_whole_path(problem):
    began = time.perf_counter()
    solutions = path(problem, 100_000, tol=1e-8, beta_ratio=1e-4, max_seconds=0.5)
    assert time.perf_counter() - began < 5.0
    assert 1 < len(solutions) < 100_000


def test_ctrl_c_between_two_solutions_keeps_what_there_is(problem):
    def stop(solution):
        if solution.problem.beta < 0.5 * problem.beta_max:
            raise KeyboardInterrupt

    assert len(path(problem, 5, progress=stop)) == 2


def test_grid_without_a_scale_starts_at_one():
    assert beta_grid(0.0, 3, 0.01) == pytest.approx([1.0, 0.1, 0.01])


@pytest.mark.parametrize("betas", [1, [], [1.0, 2.0], [1.0, 1.0], [1.0, -1.0]])
def test_bad_betas_are_named(problem, betas):
    with pytest.raises(ValueError, match="beta"):
        path(problem, betas)


@pytest.mark.parametrize("ratio", [0.0, 1.0, 2.0])
def test_bad_ratio_is_named(problem, ratio):
    with pytest.raises(ValueError, match="beta_ratio"):
        path(problem, 3, beta_ratio=ratio)
