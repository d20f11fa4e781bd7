"""The one loop: limits, callbacks, Ctrl-C, values that are not finite, the best point."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gauges import NuclearNorm
from provenet.problem import Program
from provenet.solvers.loop import Limits, Method, Point, Record, run
from provenet.solvers.stacks.apg import APG
from provenet.variable import Factors


@pytest.fixture
def problem() -> pn.Problem:
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    problem = pn.formulate("mlp", X, Y, gates=8)
    return problem.with_beta(0.05 * problem.beta_max)


@dataclass(frozen=True)
class Failing(Method[int]):
    """Two good steps of nothing, then what it is told to do."""

    then: str

    name = "failing"

    def init(self, program: Program, start: Factors | None) -> int:
        return 0

    def step(self, program: Program, state: int) -> int:
        if state == 2 and self.then == "interrupt":
            raise KeyboardInterrupt
        if self.then == "sleep":
            time.sleep(0.02)
        return state + 1

    def point(self, program: Program, state: int) -> Point:
        op = program.operator
        value = math.nan if state == 2 and self.then == "nan" else 0.0
        prediction = torch.full(op.output_shape, value, dtype=op.dtype)
        return Point(prediction, 0.0, lambda: Factors.empty(op.p, op.q))


def test_interrupt_keeps_the_best_point(problem: pn.Problem) -> None:
    done = run(Failing("interrupt"), problem.program, Limits(1e-6))
    assert done.status is pn.Status.INTERRUPTED
    assert len(done.history) == 3
    assert done.factors.n_neurons == 0


def test_interrupted_solve_is_certified_as_far_as_it_got(problem: pn.Problem) -> None:
    def stop(record: object) -> None:
        if stop.calls == 2:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        stop.calls += 1  # type: ignore[attr-defined]

    stop.calls = 0  # type: ignore[attr-defined]
    solution = pn.solve(problem, "apg", tol=1e-12, callback=stop)
    assert solution.status is pn.Status.INTERRUPTED
    assert 0 < solution.certificate.relative_gap < 1


def test_values_that_are_not_finite_end_the_run(problem: pn.Problem) -> None:
    done = run(Failing("nan"), problem.program, Limits(1e-6))
    assert done.status is pn.Status.NONFINITE
    assert done.steps == 2


def test_seconds_are_a_limit(problem: pn.Problem) -> None:
    began = time.perf_counter()
    done = run(Failing("sleep"), problem.program, Limits(1e-6, max_seconds=0.2))
    assert done.status is pn.Status.TIME_LIMIT
    assert 0.2 <= time.perf_counter() - began < 2


def test_steps_are_a_limit_of_the_whole_run(problem: pn.Problem) -> None:
    for method in ("auto", "admm", "apg", "bm", "ipm"):
        solution = pn.solve(problem, method, tol=1e-14, max_steps=3)
        assert solution.steps <= 3
        assert solution.status is not pn.Status.SOLVED


def test_no_progress_is_a_stall(problem: pn.Problem) -> None:
    done = run(Failing("nothing"), problem.program, Limits(1e-6))
    assert done.status is pn.Status.STALLED


def test_a_callback_stops_the_run(problem: pn.Problem) -> None:
    seen = []
    solution = pn.solve(problem, "apg", tol=1e-12, callback=lambda record: seen.append(record) or len(seen) == 2)
    assert solution.status is pn.Status.INTERRUPTED
    assert len(seen) == 2
    assert seen[-1].primal == pytest.approx(solution.history[-1].primal)


def test_history_is_in_the_users_units() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), 1000 * rng.standard_normal(20)
    problem = pn.formulate("mlp", X, y, gates=5)
    solution = pn.solve(problem.with_beta(0.1 * problem.beta_max), tol=1e-6)
    assert solution.history[-1].primal == pytest.approx(solution.certificate.primal, rel=1e-6)
    assert solution.history[0].primal == pytest.approx(0.5 * np.sum(y**2))


def test_every_status_has_advice() -> None:
    assert all(len(status.advice) > 20 for status in pn.Status)


def test_fista_keeps_its_rate(problem: pn.Problem) -> None:
    """F(z_k) − F* ≤ 2L‖z*‖²/(k + 1)² with L at most twice the Lipschitz constant (Beck and Teboulle 2009, Thm 4.4)."""
    best = pn.solve(problem, "ipm", tol=1e-10)
    program, op = problem.program, problem.program.operator
    distance = float(best.factors.stack(op.n_gates).square().sum())
    lipschitz = 2 * program.loss.smoothness() * op.norm_upper() ** 2
    method = APG()
    state = method.init(program, None)
    optimum = best.certificate.primal / problem.units.value
    for k in range(1, 60):
        state = method.step(program, state)
        value = program.loss.value(op.forward(state.z)) + program.beta * NuclearNorm().value(state.z)
        excess = float(value) - optimum
        assert excess <= 2 * lipschitz * distance / (k + 1) ** 2 + 1e-9


def test_a_callback_hears_of_the_last_look_too(problem: pn.Problem) -> None:
    seen: list[Record] = []
    solution = pn.solve(problem, "apg", tol=1e-3, callback=seen.append)
    assert solution.status is pn.Status.SOLVED
    assert seen == solution.history


@pytest.mark.parametrize("method", ["auto", "apg", "bm"])
def test_a_start_of_another_problem_is_refused(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    many, few = (pn.formulate("mlp", X, X[:, :1], gates=count, beta=0.1) for count in (10, 2))
    other = pn.formulate("mlp", X[:, :2], X[:, :1], gates=10, beta=0.1)
    start = pn.solve(many, "admm", tol=1e-3)
    for problem in (few, other):
        with pytest.raises(ValueError, match="start: it is of another problem"):
            pn.solve(problem, method, start=start)
    with pytest.raises(ValueError, match="start: a Solution, a network or Factors"):
        pn.solve(many, method, start="the last one")
