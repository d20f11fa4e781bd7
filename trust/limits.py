"""Random problems with random limits of time: none takes much longer than it may."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import provenet as pn
from provenet.solvers import Limits
from provenet.solvers.plan import METHODS, Refused
from provenet.solvers.solve import solve_quietly
from trust.figure import Figure, Seen, Try, pick

MORE, SHARE = 2.0, 0.1  # seconds, or of the limit, whichever is more


@contextmanager
def ready(_: Path) -> Iterator[Try]:
    yield attempt


def attempt(case: int) -> Seen:
    rng = np.random.default_rng([case, 9])
    limit = float(10.0 ** rng.uniform(-2, 0.6))
    words, work = posed(rng, limit)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        work()
    except MemoryError:
        return Seen("refused for its size")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    allowed = max(MORE, SHARE * limit)
    measured = {"seconds over, by the clock": wall - limit, "seconds over, of CPU": cpu - limit}
    if wall - limit <= allowed:
        return Seen("in time", None, measured)
    late = f"{words}: {wall:.2f} s, {cpu:.2f} s of CPU, of {limit:.2f} s"
    return Seen("late by the clock, in time by CPU", late if cpu - limit > allowed else None, measured)


def posed(rng: np.random.Generator, limit: float) -> tuple[str, Callable[[], object]]:
    """A problem of moderate size and a method, or a search over β with its folds."""
    n, d, c = int(10.0 ** rng.uniform(1, 3.2)), int(10.0 ** rng.uniform(0, 2)), int(rng.integers(1, 6))
    activation, gates = pick(rng, ["linear", "gated_relu", "relu"]), int(10.0 ** rng.uniform(0, 2))
    X, loss = rng.standard_normal((n, d)), pick(rng, ["squared", "softmax", "huber"])
    if rng.random() < 0.2:
        y = np.arange(n) % 2
        search = pn.ProvenClassifierCV(
            betas=20, cv=3, activation=activation, gates="gaussian", n_gates=gates, max_seconds=limit, tol=1e-9
        )
        return f"search, {activation}, {n} × {d}, {gates} gates", lambda: search.fit(X, y)
    if rng.random() < 0.25:
        tokens = rng.standard_normal((min(n, 60), 4, min(d, 6)))
        block = pick(rng, ["attention", "mixer", "fno", "fnet", "poolformer"])
        problem = pn.formulate(
            block, tokens, rng.standard_normal((len(tokens), c)), activation, min(gates, 20), beta=1.0
        )
    else:
        block = "mlp"
        Y = np.eye(c + 1)[rng.integers(0, c + 1, n)] if loss == "softmax" else rng.standard_normal((n, c))
        problem = pn.formulate(block, X, Y, activation, gates, loss, beta=1.0)
    problem = problem.with_beta(max(problem.beta_max, 1e-6) * 10.0 ** rng.uniform(-4, 0))
    method = pick(rng, ["auto", "auto", *METHODS])
    words = f"{block}, {activation}, {loss}, {n} × {d}, {gates} gates, {method}"
    return words, lambda: _solved(problem, method, limit)


def _solved(problem: pn.Problem, method: str, limit: float) -> None:
    """By the method, or, where that does not take the problem, which is said at once, by `auto`."""
    try:
        solve_quietly(problem, method, Limits(1e-9, None, limit))
    except Refused:
        solve_quietly(problem, "auto", Limits(1e-9, None, limit))


FIGURE = Figure(
    name="limits",
    title="time limits",
    promise="none over by more than 10 % or 2 s, whichever is more",
    checked=(
        "Problems with 10 to 1600 samples, 1 to 100 features and gates, solved by `auto` or a method drawn from all, "
        "and searches over β, with limits from 0.01 to 4 s and a tolerance that few reach. Measured by the clock; "
        "where other work on the machine makes that late, by the CPU time of its one thread, which is said."
    ),
    count=200,
    chunk=5,
    small=2,
    ready=ready,
)
