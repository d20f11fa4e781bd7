"""Time limits hold: whatever takes long looks at the clock, or is not begun."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import deadline
from provenet.certificates import Gap, duality_gap
from provenet.cones import implicit
from provenet.solvers import loop
from provenet.solvers.loop import Limits, Point, run
from provenet.solvers.neurons import amplitudes
from provenet.solvers.neurons.amplitudes import nonnegative_quadratic
from provenet.solvers.stacks.admm import ADMM

ROOT = Path(pn.__file__).parent
LOOPING = ("certificates", "cones", "gates", "gauges", "losses", "operators", "polar", "solvers")
LIMIT, BEYOND = 0.5, 2.0  # seconds

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def labels(n: int, c: int) -> np.ndarray:
    return np.eye(c)[RNG.integers(0, c, n)]


def white(n: int, d: int) -> np.ndarray:
    return np.linalg.qr(normal(d, n))[0].T


def mlp(X: np.ndarray, Y: np.ndarray, **settings: object) -> Callable[[], pn.Problem]:
    return lambda: pn.formulate("mlp", X, Y, **settings)  # type: ignore[arg-type]


PROBLEMS: dict[str, Callable[[], pn.Problem]] = {
    "whitened": mlp(white(60, 100), normal(60, 40), activation="relu", gates="all", beta=0.5),
    "wide": mlp(normal(100, 784), normal(100, 10), activation="relu", gates=100, beta=1.0),
    "wide, one output": mlp(normal(100, 784), normal(100, 1), activation="relu", gates=100, beta=1.0),
    "long": mlp(normal(1000, 10), normal(1000, 1), activation="relu", gates=200, beta=1.0),
    "linear": mlp(normal(4000, 800), normal(4000, 50), activation="linear", beta=50.0),
    "classes": mlp(normal(300, 30), labels(300, 5), activation="relu", gates=50, loss="softmax", beta=1.0),
    "mixer": lambda: pn.formulate("mixer", normal(60, 12, 8), normal(60, 3), activation="relu", gates=10, beta=1.0),
    "reference": mlp(normal(40, 2), labels(40, 2), activation="relu", gates="all", loss="softmax", beta=1e-3),
    "one sample": mlp(np.array([[0.13]]), np.array([[-132105.0]]), loss="huber", beta=1e-8),
}

PAIRS = [
    ("whitened", "copositive"),
    ("wide", "auto"),
    ("wide", "copositive"),
    ("wide, one output", "auto"),
    ("wide, one output", "frank_wolfe"),
    ("long", "admm"),
    ("long", "copositive"),
    ("long", "working_set"),
    ("linear", "auto"),
    ("linear", "admm"),
    ("wide", "cutting_plane"),
    ("classes", "copositive"),
    ("mixer", "bm"),
    ("mixer", "frank_wolfe"),
    ("reference", "cvx"),
    ("one sample", "auto"),
]


@pytest.mark.parametrize(("name", "method"), PAIRS, ids=[" / ".join(pair) for pair in PAIRS])
def test_no_run_overruns(name: str, method: str) -> None:
    problem = PROBLEMS[name]()
    began = time.process_time()  # of one thread: what others on the machine take does not count
    solution = pn.solve(problem, method, max_seconds=LIMIT)
    assert time.process_time() - began <= LIMIT + BEYOND
    assert solution.certificate.gap >= -1e-12 * solution.certificate.primal
    zero = float(problem.loss.value(torch.zeros_like(problem.loss.target)))
    assert solution.certificate.primal <= zero * (1 + 1e-12)


def test_a_factorisation_too_long_for_the_limit_is_not_begun() -> None:
    problem = pn.formulate("mlp", normal(300, 5), normal(300, 2), gates=20, beta=1.0)
    with deadline.within(1.0):
        assert deadline.affords(1e6)
        assert not deadline.affords(1e12)
        with pytest.raises(deadline.TooLong):
            deadline.need(1e12)
    assert deadline.affords(1e30)  # without a deadline everything is
    ended = run(ADMM(), problem.program, Limits(1e-9, max_seconds=1e-3))
    assert ended.status in (pn.Status.TIME_LIMIT, pn.Status.STALLED)


@pytest.mark.parametrize("start", [0.4, 1.0, 3.0])
def test_amplitudes_on_a_flat_model_end(start: float) -> None:
    """Huber far beyond δ: no curvature at all, and a step that rounding alone keeps from zero."""
    flat, slope = torch.full((1, 1), 1e-300, dtype=torch.float64), torch.full((1,), 1e-4, dtype=torch.float64)
    found = nonnegative_quadratic(flat, slope, torch.full((1,), start, dtype=torch.float64))
    assert float(found) == 0


def test_amplitudes_are_the_optimum() -> None:
    root = torch.tensor(normal(12, 8))
    Q, b = root.T @ root + 0.1 * torch.eye(8, dtype=torch.float64), torch.tensor(normal(8))
    _check_optimum(Q, b, nonnegative_quadratic(Q, b, torch.tensor(normal(8)).abs()))


@pytest.mark.parametrize("there", [0.0, 1.0], ids=["join", "leave"])
def test_amplitudes_join_and_leave_together(there: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factorisation for each that joins or leaves, one after the other, would be dozens of them."""
    solved, factorise = [], torch.linalg.cholesky_ex

    def counted(*args: Any, **more: Any) -> Any:
        solved.append(1)
        return factorise(*args, **more)

    root = torch.tensor(normal(150, 120))
    Q, b = root.T @ root + 0.1 * torch.eye(120, dtype=torch.float64), torch.tensor(normal(120))
    monkeypatch.setattr(torch.linalg, "cholesky_ex", counted)
    _check_optimum(Q, b, nonnegative_quadratic(Q, b, torch.full((120,), there, dtype=torch.float64)))
    assert len(solved) < 15


def test_amplitudes_of_neurons_that_are_nearly_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far fewer dimensions than neurons: exchanging all at once cycles here and there, and is given up."""
    given_up, one_by_one = [], amplitudes._by_active_sets

    def counted(*args: Any) -> torch.Tensor:
        given_up.append(1)
        return one_by_one(*args)

    monkeypatch.setattr(amplitudes, "_by_active_sets", counted)
    for seed in range(5):
        draw = torch.Generator().manual_seed(seed)
        numbers = partial(torch.randn, generator=draw, dtype=torch.float64)
        root = numbers(20, 60).abs() * torch.logspace(0, -2, 20, dtype=torch.float64)[:, None]
        Q = root.T @ root
        Q.diagonal().add_(1e-5 * Q.diagonal().max())
        b = -(root.T @ numbers(20).abs()) - 0.1 * numbers(60)
        for there in (0.0, 1.0):
            _check_optimum(Q, b, nonnegative_quadratic(Q, b, torch.full((60,), there, dtype=torch.float64)))
    assert 0 < len(given_up) < 10


def _check_optimum(Q: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> None:
    slope = Q @ x + b
    assert bool((x >= 0).all())
    assert float(slope.min()) >= -1e-10
    assert float((slope * x).abs().max()) <= 1e-10


@pytest.mark.parametrize("room", LOOPING)
def test_a_loop_without_a_bound_looks_at_the_clock(room: str) -> None:
    for path in sorted((ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.While):
                looks = [ast.unparse(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)]
                assert "deadline.over" in looks, f"{path.relative_to(ROOT)}:{node.lineno} may go on for ever"


def test_a_bound_that_time_does_not_tighten_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are too many for a table the spectral norm is the only bound: the look at zero is not taken twice."""
    looks: list[float] = []

    def counted(*args: object, **more: object) -> Gap:
        looks.append(deadline.left())
        return duality_gap(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(implicit, "_TABLE_NUMBERS", 0)
    monkeypatch.setattr(loop, "duality_gap", counted)
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((5, 4, 4)), draw.standard_normal((5, 2))
    for block, wanted in ((pn.BFNO(groups=2), 1), ("mlp", 2)):
        data = X if wanted == 1 else X[:, 0]
        program = pn.formulate(block, data, Y, "relu", gates=4, beta=1e3).program
        looks.clear()
        loop._gap_at_zero(program, Point.of(program.nobody, torch.zeros_like(program.loss.target)))
        assert len(looks) == wanted
