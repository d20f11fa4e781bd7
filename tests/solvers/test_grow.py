"""Gates that grow: better than those they began with, never more than asked for, the same for every block."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.solvers.grow import grown
from provenet.solvers.loop import Limits
from provenet.solvers.path import path
from provenet.solvers.solve import solve_quietly
from provenet.testing.examples import EXAMPLES, Example

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
y = np.sign(X[:, 0] * X[:, 1])


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
def test_grown_gates_are_better_than_those_they_began_with(activation: str) -> None:
    problem = pn.formulate("mlp", X, y, activation, gates="grow", n_gates=10, beta=1.0)
    began = pn.solve(replace(problem, growth=None), tol=1e-3)
    grown = pn.solve(problem, tol=1e-3)
    assert len(problem.patterns) == 2
    assert 2 < len(grown.problem.patterns) <= 10
    assert grown.certificate.primal < 0.95 * began.certificate.primal
    assert grown.certificate.holds(1e-3)
    assert grown.problem.statement.sampler == "grow"
    found = grown.problem.gate_vectors
    assert found is not None
    assert torch.equal(found[:2], problem.gate_vectors)
    again = pn.solve(problem, tol=1e-3)
    assert torch.equal(found, again.problem.gate_vectors)


def test_nothing_to_find() -> None:
    """In the plane, with every arrangement there already; and above β_max, where the zero network is best."""
    flat = X[:10, :2]
    every = pn.formulate("mlp", flat, y[:10], "relu", gates="all", beta=0.1)
    problem = pn.formulate("mlp", flat, y[:10], "relu", gates=every.gate_vectors, beta=0.1)
    solved = pn.solve(replace(problem, growth=1000), tol=1e-4)
    assert solved.problem is not None
    assert len(solved.problem.patterns) == len(problem.patterns)
    heavy = pn.formulate("mlp", X, y, gates="grow", n_gates=20, beta=1e4)
    assert len(pn.solve(heavy).problem.patterns) == len(heavy.patterns)


@pytest.mark.parametrize("example", [some[0] for some in EXAMPLES.values()], ids=str)
def test_every_block(example: Example) -> None:
    samples = example.samples(8)
    targets = np.random.default_rng(1).standard_normal((8, example.outputs))
    problem = pn.formulate(example.block, samples, targets, gates="grow", n_gates=10, beta=0.05, mask=example.mask(8))
    solved = pn.solve(problem, tol=1e-2)
    assert len(problem.patterns) < len(solved.problem.patterns) <= 10 * example.block.groups
    assert solved.certificate.holds(1e-2)


def test_a_path_goes_on_with_the_gates_it_has_grown() -> None:
    problem = pn.formulate("mlp", X, y, gates="grow", n_gates=20)
    solutions = path(problem, 3, tol=1e-2, beta_ratio=0.01)
    counts = [len(solution.problem.patterns) for solution in solutions]
    assert counts == sorted(counts)
    assert counts[-1] > len(problem.patterns)


def test_in_an_estimator() -> None:
    model = pn.ProvenRegressor(gates="grow", n_gates=16, beta=0.5, tol=1e-2).fit(X, y)
    assert model.certificate_.holds(1e-2)
    assert len(model.solution_.problem.patterns) > 3


def test_steps_are_limited_as_a_whole() -> None:
    problem = pn.formulate("mlp", X, y, gates="grow", n_gates=20, beta=0.05)
    found = solve_quietly(problem, "apg", Limits(1e-9, max_steps=30))
    assert 0 < found.steps <= 30
    assert found.certificate.gap >= 0


def test_no_solve_begins_after_the_end_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would have a second of its own for the certificate."""
    began, asked = time.perf_counter(), []

    def slow(problem: pn.Problem, start: object, limits: Limits) -> pn.Solution:
        asked.append(limits)
        return solve_quietly(replace(problem, growth=None), "apg", replace(limits, max_seconds=None, max_steps=20))

    monkeypatch.setattr("provenet.solvers.grow.time.perf_counter", lambda: began + 10.0 * len(asked))
    problem = pn.formulate("mlp", X, y, gates="grow", n_gates=20, beta=0.05)
    found = grown(slow, problem, None, Limits(1e-9, max_seconds=5.0))
    assert [limits.max_seconds for limits in asked] == [5.0]
    assert found.seconds == 10.0
    asked.clear()
    grown(slow, problem, None, Limits(1e-9, max_seconds=15.0))
    assert [limits.max_seconds for limits in asked] == [15.0, 5.0]
