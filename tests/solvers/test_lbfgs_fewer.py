"""A start from fewer samples: near the optimum of all, and nothing that is proven hangs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet import deadline
from provenet.operators.blocks.mlp import MLPOperator
from provenet.problem import Program
from provenet.solvers.loop import Limits, Run, run
from provenet.solvers.neurons.lbfgs import fewer
from provenet.solvers.neurons.lbfgs.fewer import from_fewer
from provenet.solvers.neurons.lbfgs.method import LBFGS, LBFGSState
from provenet.solvers.snapshot import current, snapshots
from provenet.solvers.status import Status


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fewer, "_LEAST", 100)


def posed(n: int = 800, weighted: bool = False, activation: str = "gated_relu") -> pn.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    labels = (X @ rng.standard_normal((6, 3))).argmax(1)
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    gates = {} if activation == "linear" else {"gates": 8}
    problem = pn.formulate("mlp", X, labels, activation, loss="softmax", sample_weight=weight, **gates)
    return problem.with_beta(0.05 * problem.beta_max)


class Seen(list[tuple[Program, Limits]]):
    """What the run on fewer samples was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: Status | None = None):
        super().__init__()

        def spied(method: Any, program: Program, limits: Limits) -> Run:
            self.append((program, limits))
            assert current() is None
            done = run(method, program, limits)
            return done if status is None else Run(status, program.nobody, 0, 0.0)

        monkeypatch.setattr(fewer, "run", spied)


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_near_the_optimum_of_all(weighted: bool) -> None:
    problem = posed(weighted=weighted)
    program = problem.program
    done = from_fewer(LBFGS(), program)
    assert done is not None
    start = done.factors
    assert start.n_neurons > 0
    best = pn.solve(problem, "admm", tol=1e-6).certificate
    least, none = best.primal / problem.units.value, float(program.objective_factors(program.nobody))
    assert float(program.objective_factors(start)) - least <= 0.1 * (none - least)
    found = pn.solve(problem, LBFGS(), tol=1e-5).certificate
    assert found.holds(1e-5)
    assert found.primal == pytest.approx(best.primal, rel=2e-5)


def test_their_loss_and_penalty_are_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    program = posed(weighted=True).program
    seen = Seen(monkeypatch)
    from_fewer(LBFGS(), program)
    (small, _), *others = seen
    share = float(small.loss.sample_weight.sum() / program.loss.sample_weight.sum())
    assert small.operator.output_shape == (200, 3)
    assert not others
    assert small.beta == pytest.approx(share * program.beta)
    assert small.loss.free == program.loss.free
    rows = {tuple(row.tolist()) for row in program.operator.gated_rows.X}  # type: ignore[union-attr]
    assert {tuple(row.tolist()) for row in small.operator.gated_rows.X} <= rows  # type: ignore[union-attr]


def test_of_many_a_part_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    from_fewer(LBFGS(), posed(n=1700).program)
    assert [small.operator.output_shape[0] for small, _ in seen] == [425, 106]


def test_time_is_left_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    with deadline.within(100.0):
        from_fewer(LBFGS(), posed().program)
    assert seen[0][1].max_seconds == pytest.approx(30.0, abs=1.0)


def test_few_samples_and_those_not_at_hand_begin_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    assert from_fewer(LBFGS(), posed(n=396).program) is None
    monkeypatch.setattr(MLPOperator, "part", lambda op, samples: None)
    problem = posed()
    assert from_fewer(LBFGS(), problem.program) is None
    assert pn.solve(problem, LBFGS(), tol=1e-3).certificate.holds(1e-3)
    assert not seen


def test_a_class_that_fewer_samples_do_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 6))
    labels = (X @ rng.standard_normal((6, 3))).argmax(1)
    labels[:2] = 3
    problem = pn.formulate("mlp", X, labels, loss="softmax", gates=8, fit_intercept="free")
    problem = problem.with_beta(0.05 * problem.beta_max)
    seen = Seen(monkeypatch)
    done = from_fewer(LBFGS(), problem.program)
    loss = seen[0][0].loss
    assert loss.free
    assert float(loss.target[:, 3].sum()) == 0
    assert done is not None
    assert bool(done.factors.left.isfinite().all())
    assert pn.solve(problem, LBFGS(), tol=1e-4).certificate.holds(1e-4)


def test_a_start_that_is_given_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)
    program = posed().program
    LBFGS().init(program, program.nobody)
    assert not seen


def test_ctrl_c_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    Seen(monkeypatch, Status.INTERRUPTED)
    done = run(LBFGS(), posed().program, Limits(1e-3))
    assert done.status is Status.INTERRUPTED
    assert done.steps == 0


def test_snapshots_are_of_the_run_on_all_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen(monkeypatch)  # which looks whether there are any
    with snapshots(tmp_path / "kept", every=2):
        pn.solve(posed(), LBFGS(), tol=1e-3)
    assert seen


def test_one_gate_offers_many_neurons() -> None:
    """A linear block whose optimum has several neurons finds them together."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12))
    labels = (X @ rng.standard_normal((12, 8))).argmax(1)
    problem = pn.formulate("mlp", X, labels, "linear", loss="softmax")
    problem = problem.with_beta(0.02 * problem.beta_max)
    done = run(LBFGS(), problem.program, Limits(1e-2))
    assert done.status is Status.SOLVED
    assert done.factors.n_neurons >= 5
    assert done.steps <= 40


def test_what_it_had_is_kept_by_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, real, steps = posed(), LBFGS.step, list[int]()

    def interrupted(method: LBFGS, program: Program, state: LBFGSState) -> LBFGSState:
        steps.append(program.operator.output_shape[0])
        if len(steps) == 10:
            raise KeyboardInterrupt
        return real(method, program, state)

    monkeypatch.setattr(LBFGS, "step", interrupted)
    with pytest.warns(ConvergenceWarning):
        solution = pn.solve(problem, LBFGS(), tol=1e-5)
    assert solution.status is Status.INTERRUPTED
    assert steps == [200] * 10 + [800]  # the last one is none
    nothing = float(problem.program.objective_factors(problem.program.nobody)) * problem.units.value
    assert solution.certificate.primal < 0.9 * nothing


def test_looks_after_such_a_start_are_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few neurons are missing then, and steps of few neurons cost little beside a look."""
    program = posed().program
    begun = LBFGS().init(program, None)
    assert begun.at.factors.n_neurons > 0
    monkeypatch.setattr(LBFGS, "_rest", lambda self, task, neurons=0: 400 if neurons else 40)
    assert LBFGS().pause(program, begun, 0) == 100
    monkeypatch.setattr(fewer, "_LEAST", 10**6)
    assert LBFGS().pause(program, begun, 0) == 10
