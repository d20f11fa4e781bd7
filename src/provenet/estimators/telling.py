"""What a fit says of itself while it goes on, and to whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from provenet.memory import as_bytes, shown
from provenet.problem import Problem
from provenet.solvers import Record


def told_memory(problem: Problem, limit: Any) -> str:
    """What memory a fit will take."""
    if problem.memory is not None:
        return str(problem.memory)
    held, allowed = 2 * 8 * math.prod(problem.X.shape), as_bytes(limit) or 0
    return (
        f"memory: samples are worked on in memory, which takes {shown(held)} of the {shown(allowed)} allowed; a method "
        "that needs more than that is not chosen."
    )


def print_gates(problem: Problem) -> None:
    gates, statement = problem.gates, problem.statement
    if gates.vectors is not None:
        print(f"gates  {len(gates.vectors)}, {statement.sampler}, found in {gates.seconds:.2g} s")


def print_record(record: Record) -> None:
    print(f"step {record.step:>6}  primal {record.primal:.8e}  relative gap {record.relative_gap:.2e}")


@contextmanager
def watched(
    estimator: Any,
    watcher: Callable[..., Any],
    speaker: Callable[[str], Any] | None = None,
    counter: Callable[[float, str], Any] | None = None,
) -> Iterator[None]:
    """While this lasts, fits of the estimator tell ``watcher`` how they go: of each look at the gap, where a true
    answer stops them, or of each epoch of a deep network; ``speaker``, in words, what they will take; and searches
    ``counter`` how much of the search is done, at most, and what comes next."""
    listeners = {"_watcher": watcher, "_speaker": speaker, "_counter": counter}
    vars(estimator).update(listeners)
    try:
        yield
    finally:
        for name in listeners:
            delattr(estimator, name)
