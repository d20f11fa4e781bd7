"""Few neurons are left of those that interior points spread over neighbouring cones, and they prove as much."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.demo import spiral
from provenet.solvers.cones.tidy import tidied
from provenet.variable import Factors


@pytest.mark.parametrize(("beta", "most"), [(0.1, 20), (1.0, 12)])
def test_the_spiral_needs_few_neurons(beta: float, most: int) -> None:
    X, label = spiral(60)
    problem = pn.formulate("mlp", X, np.eye(3)[label], activation="relu", gates="all", beta=beta)
    solution = pn.solve(problem, "copositive", tol=1e-6)
    assert solution.certificate.holds(1e-6)
    assert solution.factors.n_neurons <= most


def test_one_output_needs_no_more_than_a_neuron_a_sample() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    problem = pn.formulate(
        pn.MLP(fit_intercept=True), X, np.sin(2 * X[:, :1]), activation="relu", gates="all", beta=0.1
    )
    solution = pn.solve(problem, "working_set", tol=1e-6)
    assert solution.certificate.holds(1e-6)
    assert solution.factors.n_neurons <= 31


def test_neurons_are_merged_across_cones_only_where_the_proof_allows_it() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    problem = pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=0.3)
    solution = pn.solve(problem, "frank_wolfe", tol=1e-9)
    program, few = problem.program, solution.factors
    doubled = Factors.join(few.scaled(0.5**0.5), few.scaled(0.5**0.5))
    assert tidied(program, doubled, 1e-6).n_neurons <= few.n_neurons
    assert tidied(program, doubled, 1e-15) is doubled  # no gap is that small
