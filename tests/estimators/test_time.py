"""A fit within a time limit: what there is no time for is left out and told, and there is an answer."""

from __future__ import annotations

import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet import deadline
from provenet.beta import Beta
from provenet.estimators import rough as rough_file
from provenet.estimators.samples import TrainingData
from provenet.formulation import rehearsal
from provenet.problem import Problem
from provenet.solvers import judging
from provenet.wrong_use import WrongUse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5))
Y = np.abs(X[:, 0]) - X[:, 1]


def images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Of which a convolution reads most."""
    seen = RNG.standard_normal((n, 1, 16, 16))
    return seen, seen[:, 0, :8].mean((1, 2)) + 0.3 * seen[:, 0, 3, 3] > 0


def within(monkeypatch: pytest.MonkeyPatch, each: float, left: float, asked: int = 50) -> int:
    """How many gates are affordable, where each takes so long."""
    monkeypatch.setattr(rehearsal, "_seconds", lambda on, count, cones: each * count)
    monkeypatch.setattr(deadline, "left", lambda: left)  # by no clock: what is told of it is looked at
    return rehearsal.affordable(SimpleNamespace(X=torch.zeros(1)), asked)  # type: ignore[arg-type]


def test_as_many_gates_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert within(monkeypatch, each=0.01, left=100.0) == 50
    assert 5 <= within(monkeypatch, each=0.1, left=4.0) <= 10
    assert within(monkeypatch, each=3.0, left=4.0) == 1
    with pytest.raises(
        WrongUse, match=r"^max_seconds: 4 s are left, and posing the problem takes about 9 s .*allow 36 s"
    ):
        within(monkeypatch, each=9.0, left=4.0)


def test_a_linear_block_is_tried_without_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a gate tokens are no longer summed once for all: attention takes many times as long."""
    tried: list[int] = []
    posed = rehearsal._posed

    def watched(on: Any, few: int, count: int, cones: bool) -> None:
        tried.append(count)
        posed(on, few, count, cones)

    monkeypatch.setattr(rehearsal, "_gaussian", lambda on, count: pytest.fail("a linear block has no gates"))
    monkeypatch.setattr(rehearsal, "_posed", watched)
    tokens, both = X.reshape(60, 5, 2), np.stack([Y, -Y], 1)[:60]
    for block in ("attention", "mixer", "fno", pn.BFNO(groups=2), "fnet"):
        pn.ProvenRegressor(block=block, activation="linear", beta=0.1, max_seconds=60.0).fit(tokens, both)
    assert set(tried) == {0}


def test_of_gates_that_grow_those_are_told_that_they_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_seconds", lambda on, count, cones: float(count))
    solver = sys.modules["provenet.solvers.solve"]
    monkeypatch.setattr(solver, "grown", lambda solve, problem, *more: solve(problem, *more))  # none are found
    with pytest.warns(ConvergenceWarning, match=r"leaves time for \d of 20 gates"):
        pn.ProvenRegressor(beta=1.0, gates="grow", n_gates=100, max_seconds=30.0).fit(X, Y)


def test_gates_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_seconds", lambda on, count, cones: float(count))
    model = pn.ProvenRegressor(beta=0.1, n_gates=30, max_seconds=40.0)
    with pytest.warns(ConvergenceWarning, match=r"max_seconds=40 leaves time for \d of 30 gates"):
        model.fit(X, Y)
    gates = model.solution_.problem.gates
    assert len(gates.patterns) + gates.left_out == 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pn.ProvenRegressor(beta=0.1, n_gates=30).fit(X, Y)  # without a limit nothing is tried


def test_beta_max_is_told_by_a_part_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10**6))
    monkeypatch.setattr(rough_file, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))
    x = RNG.standard_normal((4096, 3))
    y = np.abs(x[:, :1])
    posed: list[int] = []

    def pose(part: TrainingData) -> Problem:
        posed.append(len(part.X))
        return pn.formulate("mlp", part.X, part.targets, gates=20)

    data = TrainingData(x, y[:, 0], y, None, None)
    whole = rough_file.rough(data, pose).of(Beta(0.1, "max"))
    with deadline.within(30.0):
        part = rough_file.rough(data, pose).of(Beta(0.1, "max"))
    assert posed[:2] == [4096, 512]
    assert 1024 < posed[2] <= 1536
    assert part == pytest.approx(whole, rel=0.2)


def test_a_network_has_no_more_neurons_than_there_is_time_to_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pn.formulate("mlp", X, Y, gates=20, beta=1e-3)
    monkeypatch.setattr(judging, "_seconds_each", lambda _: 0.5)
    with pytest.warns(ConvergenceWarning):
        found = pn.solve(problem, "lbfgs", tol=1e-9, max_seconds=2.0)
    assert 1 <= found.factors.n_neurons <= 2


def test_what_only_the_first_pass_takes_is_not_taken_for_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, clock = pn.formulate("mlp", X, Y, gates=20, beta=1e-3), [0.0]
    passes: list[slice] = []

    def pass_over(self: Problem, network: Any, rows: slice) -> None:
        clock[0] += 0.01 if passes else 10.0
        passes.append(rows)

    monkeypatch.setattr(Problem, "outputs", pass_over)
    monkeypatch.setattr(judging, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    assert judging._seconds_each(problem) == pytest.approx(0.01 / 8 * 120 / 64)


def test_a_solution_knows_its_intercept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over the data may take longer than all steps together: it is not made once more."""
    problem = pn.formulate("mlp", X, Y, gates=10, beta=0.1, fit_intercept="free")
    asked: list[Any] = []
    outputs = Problem.outputs
    monkeypatch.setattr(Problem, "outputs", lambda self, *more: asked.append(1) or outputs(self, *more))
    solution = pn.solve(problem, tol=1e-4)
    assert len(asked) == 1
    again: Any = solution.network()
    assert len(asked) == 1
    assert pn.certify(problem, again).primal == pytest.approx(solution.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
def test_a_limit_below_the_time_of_posing_is_kept_and_answered(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the processor's clock: others may have the machine."""
    samples, labels = images(10_000)
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    began = time.process_time()
    model = pn.ProvenClassifier(block=pn.CNN(kernel=3, pool=2), activation=activation, max_seconds=1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(samples, labels)
    assert time.process_time() - began < 1.5 + 2.0
    assert model.certificate_.relative_gap <= 1.0
    assert activation == "relu" or model.score(samples, labels) > 0.6  # in cones the zero network may be all
