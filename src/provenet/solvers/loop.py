"""The one loop.  A method only says what its first state is, what a step is, and which point it stands at."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from provenet.certificates import Gap, duality_gap
from provenet.problem import Program
from provenet.solvers.status import Status
from provenet.solvers.threads import product_size
from provenet.variable import Factors

State = TypeVar("State")


@dataclass(frozen=True)
class Point:
    """A candidate: its prediction, its penalty Σγ(Z_k), and its neurons when asked for.

    lower: a bound of p* that the method has proved on its own, if any."""

    prediction: Tensor
    penalty: float
    factors: Callable[[], Factors]
    lower: float = -math.inf


class Method(ABC, Generic[State]):
    """Frozen settings; all that changes is in the state."""

    name: str
    check_every: int = (
        1  # steps between two looks at the gap; where more than one, later looks are up to ten times rarer
    )
    patience: int = 50  # looks without progress before the run counts as stalled
    max_steps: int = 10_000
    reduces: bool = True  # whether the data's unused directions are taken out first

    @abstractmethod
    def refuses(self, program: Program) -> str | None:
        """Why this method cannot take this program, in a sentence; None if it can."""

    def memory(self, program: Program) -> int:
        """Bytes a run will allocate beyond the program itself, told before anything is allocated."""
        return 4 * program.operator.stack_bytes

    def work(self, program: Program) -> float:
        """Multiply-adds of the largest product of a step: how many threads are worth their while."""
        return product_size(program)

    @abstractmethod
    def init(self, program: Program, start: Factors | None) -> State: ...

    @abstractmethod
    def step(self, program: Program, state: State) -> State: ...

    @abstractmethod
    def point(self, program: Program, state: State) -> Point: ...

    def look(self, program: Program, state: State, gap: Gap) -> State:
        """Told the gap at each look: a method may change its course."""
        return state

    def finished(self, state: State) -> bool:
        """True where the method itself knows that it can go no further."""
        return False


@dataclass(frozen=True)
class Record:
    """One look at the gap."""

    step: int
    seconds: float
    primal: float
    dual: float
    relative_gap: float


@dataclass
class Run:
    """What the loop hands back."""

    status: Status
    factors: Factors
    steps: int
    seconds: float
    history: list[Record] = field(default_factory=list)
    lower: float = -math.inf  # the best bound of p* seen


@dataclass(frozen=True)
class Limits:
    tol: float
    max_steps: int | None = None
    max_seconds: float | None = None


Callback = Callable[[Record], Any]


def run(
    method: Method[Any],
    program: Program,
    limits: Limits,
    start: Factors | None = None,
    callback: Callback | None = None,
) -> Run:
    """Steps until the relative gap is at most ``tol``, or a limit.  Always returns the best point seen.

    The first point seen is zero: from β_max on it is the answer, and no method is asked.  ``callback`` gets a `Record`
    at each look; a true answer stops the run.
    """
    began = time.perf_counter()
    best = _zero(program)
    gap = duality_gap(program, best.prediction, best.penalty)
    history: list[Record] = []
    if gap.relative <= limits.tol:
        history.append(Record(0, time.perf_counter() - began, gap.primal, gap.dual, gap.relative))
        return Run(Status.SOLVED, best.factors(), 0, time.perf_counter() - began, history, gap.dual)
    best_gap, progress_gap, since_progress, lower = gap.absolute, math.inf, 0, gap.dual
    best_primal, status, step, next_look = gap.primal, Status.MAX_STEPS, 0, 0
    max_steps = method.max_steps if limits.max_steps is None else limits.max_steps
    try:
        state = method.init(program, start)
        while True:
            out_of_steps = step >= max_steps
            out_of_time = limits.max_seconds is not None and time.perf_counter() - began >= limits.max_seconds
            finished = method.finished(state)
            if step >= next_look or out_of_steps or out_of_time or finished:
                next_look = step + _until_next_look(step, method.check_every)
                point = method.point(program, state)
                gap = duality_gap(program, point.prediction, point.penalty)
                if not (math.isfinite(gap.primal) and math.isfinite(gap.polar_max)):
                    status = Status.NONFINITE
                    break
                record = Record(step, time.perf_counter() - began, gap.primal, gap.dual, gap.relative)
                history.append(record)
                lower = max(lower, gap.dual, point.lower)
                # where the polar is bounds, not a number, the gap may favour a worse network: the objective decides
                exact = program.gauge.has_prox or gap.relative <= limits.tol
                if gap.absolute < best_gap if exact else gap.primal < best_primal:
                    best, best_primal = point, gap.primal
                best_gap = min(best_gap, gap.absolute)
                told_to_stop = callback is not None and callback(record)
                if gap.relative <= limits.tol:
                    status = Status.SOLVED
                    break
                since_progress += 1
                if best_gap <= 0.9 * progress_gap:
                    progress_gap, since_progress = best_gap, 0
                if told_to_stop:
                    status = Status.INTERRUPTED
                    break
                if out_of_time or out_of_steps:
                    status = Status.TIME_LIMIT if out_of_time else Status.MAX_STEPS
                    break
                if finished or since_progress >= method.patience:
                    status = Status.STALLED
                    break
                state = method.look(program, state, gap)
            state = method.step(program, state)
            step += 1
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except (
        ArithmeticError,
        np.linalg.LinAlgError,
        torch.linalg.LinAlgError,
    ):  # overflow, or a factorisation broke down
        status = Status.NONFINITE
    return Run(status, best.factors(), step, time.perf_counter() - began, history, lower)


def _until_next_look(step: int, check_every: int) -> int:
    """A look costs about as much as a step: long runs can wait a tenth of their length."""
    return check_every if check_every == 1 else min(max(step // 10, check_every), 10 * check_every)


def _zero(program: Program) -> Point:
    op = program.operator
    return Point(torch.zeros(op.output_shape, dtype=op.dtype), 0.0, lambda: Factors.empty(op.p, op.q, op.dtype))
