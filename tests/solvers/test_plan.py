"""What `auto` does, as a table: programs → stages; and what any plan keeps to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import provenet as pn
from provenet import memory
from provenet.reductions import STANDARD, reduced
from provenet.solvers import offers
from provenet.solvers.loop import Method
from provenet.solvers.offers import Offer, Task
from provenet.solvers.plan import METHODS, plan, plan_unreduced
from provenet.solvers.stacks.apg import APG


def posed(
    block: Any, shape: tuple[int, ...], outputs: int, loss: str = "squared", share: float = 0.01, **more: Any
) -> pn.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    scores = rng.standard_normal((shape[0], outputs))
    targets = scores.argmax(1) if loss == "softmax" else (scores > 0) if loss == "logistic" else scores
    problem = pn.formulate(block, X, targets, loss=loss, **({"gates": 16} | more))
    return problem.with_beta(share * problem.beta_max)


def whitened() -> pn.Problem:
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 8)))[0].T
    return pn.formulate("mlp", Q, np.eye(4)[np.arange(8) % 4], activation="relu", gates="all", beta=0.1)


# program, its stages with the usual tolerance of 1e-4
TABLE: dict[str, tuple[Callable[[], pn.Problem], list[str]]] = {
    "squared, few unknowns": (
        lambda: posed("mlp", (150, 2), 3, share=1e-4, gates=100),
        ["ipm", "apg", "active_ipm", "bm"],
    ),
    "squared table": (lambda: posed("mlp", (600, 20), 1, gates=100), ["admm", "ipm", "active_ipm", "bm"]),
    "squared, several outputs": (lambda: posed("mlp", (600, 40), 10, gates=100), ["admm", "active_ipm", "bm"]),
    "squared, many rows": (lambda: posed("mlp", (6000, 30), 1, gates=60), ["apg", "lbfgs", "active_ipm", "bm"]),
    "softmax table": (lambda: posed("mlp", (300, 8), 3, "softmax", gates=100), ["admm", "apg", "bm"]),
    "softmax table, free intercept": (
        lambda: posed("mlp", (300, 8), 3, "softmax", gates=50, share=0.02, fit_intercept="free"),
        ["admm", "lbfgs", "bm"],
    ),
    "softmax, many rows": (lambda: posed("mlp", (8000, 10), 3, "softmax"), ["apg", "bm"]),
    "softmax, linear": (lambda: posed("mlp", (1500, 60), 10, "softmax", activation="linear"), ["apg", "lbfgs", "bm"]),
    "softmax, long first layers": (lambda: posed("mlp", (900, 500), 10, "softmax"), ["admm", "lbfgs", "bm"]),
    "logistic table": (lambda: posed("mlp", (500, 30), 1, "logistic", gates=100), ["admm", "lbfgs", "bm"]),
    "logistic, many gates at large β": (
        lambda: posed("mlp", (2000, 50), 1, "logistic", share=0.3, gates=1000),
        ["lbfgs", "apg", "bm"],
    ),
    "huber": (lambda: posed("mlp", (400, 10), 1, "huber", gates=100), ["admm", "bm"]),
    "a 1-norm": (lambda: posed("mlp", (60, 5), 2, penalty=(1, 2)), ["admm", "apg"]),
    "signs": (lambda: posed("mlp", (60, 4), 2, penalty=(math.inf, 2)), ["admm", "apg"]),
    "relu, one output, wide cones": (
        lambda: posed("mlp", (100, 6), 1, activation="relu"),
        ["working_set", "cone_bm", "frank_wolfe"],
    ),
    "relu, one output, narrow cones": (
        lambda: posed("mlp", (1000, 20), 1, activation="relu", gates=100),
        ["cone_bm", "working_set", "frank_wolfe"],
    ),
    "relu in the plane": (
        lambda: posed("mlp", (30, 2), 3, activation="relu"),
        ["copositive", "cone_bm", "frank_wolfe"],
    ),
    "relu, several outputs": (
        lambda: posed("mlp", (60, 5), 3, "softmax", activation="relu"),
        ["cone_bm", "frank_wolfe"],
    ),
    "relu, outputs apart": (
        lambda: posed("mlp", (40, 4), 2, activation="relu", penalty=(2, 1)),
        ["cone_bm", "frank_wolfe"],
    ),
    "relu, few rows of tokens": (
        lambda: posed("mixer", (20, 3, 3), 2, activation="relu", gates=4),
        ["cone_bm", "frank_wolfe"],
    ),
    "relu without a table": (lambda: posed("mixer", (600, 12, 12), 2, activation="relu", gates=4), ["cone_bm"]),
    "whitened": (whitened, ["closed_form", "copositive_admm", "frank_wolfe"]),
    "cnn": (lambda: posed(pn.CNN(kernel=3, pool=2), (200, 1, 8, 8), 10, "softmax"), ["admm", "apg", "bm"]),
    "attention, linear, long first layers": (
        lambda: posed("attention", (1500, 3, 100), 100, "softmax", activation="linear"),
        ["lbfgs", "bm"],
    ),
    "attention, linear": (
        lambda: posed("attention", (300, 9, 6), 5, "softmax", activation="linear"),
        ["admm", "apg", "bm"],
    ),
    "attention": (lambda: posed("attention", (60, 6, 4), 3), ["admm", "apg", "bm"]),
    "mixer": (lambda: posed("mixer", (100, 6, 4), 3, "softmax"), ["admm", "apg", "bm"]),
    "fno": (lambda: posed("fno", (100, 8, 4), 3), ["admm", "apg", "bm"]),
    "bfno": (lambda: posed(pn.BFNO(groups=2), (100, 8, 4), 4, "softmax"), ["apg", "lbfgs", "bm"]),
    "poolformer": (lambda: posed("poolformer", (300, 9, 8), 4, "softmax"), ["admm", "apg", "bm"]),
    "fnet": (lambda: posed("fnet", (300, 8, 8), 2, "huber"), ["admm", "apg", "bm"]),
}


def stages(problem: pn.Problem, tol: float = 1e-4) -> list[str]:
    program = problem.program
    chosen = [*plan_unreduced(program, "auto"), *plan(reduced(program, STANDARD)[0], "auto", tol)]
    return [stage.method.name for stage in chosen]


def test_labels_at_random_are_told_from_those_that_can_be_learnt() -> None:
    """By how much of them one neuron explains."""
    X, labels = load_iris(return_X_y=True)
    X, noise, first = (X - X.mean(0)) / X.std(0), [], []
    for y in (labels, np.random.default_rng(0).permutation(labels)):
        problem = pn.formulate("mlp", X, y, loss="softmax", gates=100)
        problem = problem.with_beta(0.01 * problem.beta_max)
        noise.append(Task(problem.program, 1e-4).noise)
        first.append(stages(problem)[0])
    assert noise[0] < 1 < 1.5 < noise[1]
    assert first == ["lbfgs", "admm"]


@pytest.mark.parametrize("name", TABLE)
def test_auto(name: str) -> None:
    make, wanted = TABLE[name]
    assert stages(make()) == wanted


def test_the_last_stage_has_no_limit_of_steps_and_the_others_have() -> None:
    for make, _ in TABLE.values():
        program, _ = reduced(make().program, STANDARD)
        *before, last = plan(program, "auto", 1e-4)
        assert last.max_steps is None
        assert all(
            stage.max_steps is not None for stage in before if not stage.method.offer(Task(program, 1e-4)).finishes
        )


def test_offers_are_told_without_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once β_max is known, no operator is applied."""
    program = posed("mlp", (60, 5), 3).program
    assert program.beta_max > 0
    for name in ("forward", "adjoint", "forward_factors", "adjoint_factors", "kernel"):
        monkeypatch.setattr(type(program.operator), name, lambda *_: pytest.fail("an offer works"))
    assert len(plan(program, "auto", 1e-4)) == 4
    for kind in METHODS.values():
        if kind().refuses(program) is None:
            assert kind().offer(Task(program, 1e-4)).bytes >= 0


def test_what_does_not_fit_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed("mlp", (300, 30), 4, gates=60)
    assert stages(problem)[0] == "admm"
    monkeypatch.setattr(memory, "_TRIFLE", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 6 * 3 * problem.program.operator.stack_bytes)
    assert "admm" not in stages(problem)


def test_where_little_fits_the_smallest_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than half of the memory, but not all of it."""
    problem = posed("mlp", (300, 30), 4, gates=60)
    program, _ = reduced(problem.program, STANDARD)
    needed = {name: METHODS[name]().memory(program) for name in ("admm", "apg")}
    assert needed["apg"] < needed["admm"]
    monkeypatch.setattr(memory, "_TRIFLE", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: int(1.4 * needed["apg"]))
    assert stages(problem)[0] == "apg"


def test_more_digits_are_more_work() -> None:
    program = posed("mlp", (300, 8), 3, "softmax").program
    for kind in (METHODS["admm"], METHODS["apg"]):
        rough, fine = (kind().offer(Task(program, tol)).work for tol in (1e-2, 1e-6))
        assert rough < fine


def test_a_method_of_ones_own_may_offer() -> None:
    class Quick(METHODS["apg"]):  # type: ignore[misc,name-defined]
        name = "quick"

        def offer(self, task: Task) -> Offer:
            return Offer(0, 0.0, 1.0, starts=True)

    problem = posed("mlp", (40, 4), 2)
    assert isinstance(Quick(), Method)
    assert pn.solve(problem, Quick(), tol=1e-3).method == "quick"


def test_gated_stacks_that_can_be_formed_begin_with_lbfgs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much work to iterate on, as for 50,000 images, but little for a look: Newton's products with
    neurons behind gates are dearer still."""
    monkeypatch.setattr(offers, "_DENSE", 1e6)
    block = pn.CNN(kernel=(12, 1), pool=(1, 20), fit_intercept=True)
    problem = posed(block, (3000, 1, 12, 20), 30, "softmax", share=0.05, fit_intercept="free")
    task = Task(problem.program, 1e-2)
    assert task.only_neurons
    assert plan(problem.program, "auto", 1e-2)[0].method.name == "lbfgs"


def test_columns_that_say_the_same_are_told_from_others() -> None:
    """The proximal gradient crawls where the data have few directions, and a linear table is all there is of them."""
    draw = np.random.default_rng(0)
    X, y = draw.standard_normal((400, 20)), np.arange(400) % 4
    tilted, first = X @ np.diag(0.7 ** np.arange(20)) @ np.linalg.qr(draw.standard_normal((20, 20)))[0], []
    for rows in (X, tilted):
        problem = pn.formulate("mlp", rows, y, "linear", loss="softmax")
        task = Task(problem.with_beta(0.01 * problem.beta_max).program, 1e-4)
        moments = np.linalg.eigvalsh(rows.T @ rows)
        assert task.evenness == pytest.approx(moments.sum() ** 2 / 20 / (moments**2).sum())
        first.append(APG().offer(task).steps)
    assert first[1] > 2 * first[0]
