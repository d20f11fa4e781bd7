"""Trials: who, on which program, asked for what; how long it took and what was proven of what came back."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from provenet.bench.records import Records
from provenet.bench.speed.cases import Case
from provenet.bench.speed.entrants import Entrant, entrants
from provenet.bench.speed.problems import Absent, teacher
from provenet.certificates.gap import judged
from provenet.deadline import Budget
from provenet.problem import Problem
from provenet.proofs import certify

_PATIENCE, _LEAST = 1.5, 0.3  # times `auto`'s seconds, and seconds: how long a method is waited for
_NEXT = 0.25  # of the limit: where one took longer, the next, which asks for more, is not begun by a peer
_AGAIN, _TIMES = 1.0, 3  # what is quicker than so many seconds is repeated, and the least counts


@dataclass(frozen=True)
class Trial:
    """seconds: of the processor, on one thread; ``gap``: relative, certified in float64 from the network that came
    back, and its dual point, None where there is none; ``ran``: what did it; ``error``: why not."""

    case: str
    who: str
    effort: float
    seconds: float
    gap: float | None = None
    ours: bool = False
    ran: str = ""
    error: str | None = None

    @property
    def key(self) -> tuple[str, str, float]:
        return self.case, self.who, self.effort


@dataclass(frozen=True)
class Setup:
    """``data``: a folder; ``limit``: of one trial, in seconds; ``max_seconds``: after which no trial is begun;
    ``who``: their names, all there are where it is None."""

    data: Path | None = None
    limit: float = 120.0
    max_seconds: float | None = None
    who: frozenset[str] | None = None


def run(
    cases: Iterable[Case],
    records: Records[Trial],
    setup: Setup,
    tell: Callable[[Trial], Any] | None = None,
    skip: Callable[[str, str], Any] | None = None,
) -> bool:
    """Fill in what the records lack; whether it came to the end in its time.  ``skip`` hears of programs whose data are
    not there, and why."""
    budget = Budget(setup.max_seconds)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        warm: set[str] = set()
        for case in cases:
            try:
                problem = case.make(setup.data)
            except Absent as reason:
                if skip is not None:
                    skip(case.name, str(reason))
                continue
            for entrant in entrants(problem):
                if setup.who is not None and entrant.name not in setup.who:
                    continue
                if entrant.name not in warm:
                    warm.add(entrant.name)
                    _warm_up(entrant)
                if not _ladder(case, problem, entrant, records, setup, budget, tell):
                    return False
    return True


def _warm_up(entrant: Entrant) -> None:
    """Once on a program of no size: what is imported late, or compiled, is so before any time is taken."""
    tiny = teacher(30, 2, 4, 0.1)
    if any(one.name == entrant.name for one in entrants(tiny)):
        with suppress(ValueError, ArithmeticError, RuntimeError, ImportError):
            entrant.train(tiny, 1e-2 if entrant.efforts is None else entrant.efforts[0], 1.0)


def _ladder(
    case: Case,
    problem: Problem,
    entrant: Entrant,
    records: Records[Trial],
    setup: Setup,
    budget: Budget,
    tell: Callable[[Trial], Any] | None,
) -> bool:
    """One entrant, asked for more and more until it takes too long; False where time is up."""
    for effort in case.tols if entrant.efforts is None else entrant.efforts:
        trial = records.get((case.name, entrant.name, effort))
        limit = _limit(case, entrant, effort, records, setup)
        if trial is None:
            if budget.over:
                return False
            records.add(trial := _judged(case, problem, entrant, effort, limit))
            if tell is not None:
                tell(trial)
        missed = entrant.ours and (trial.gap is None or trial.gap > effort)
        if trial.error is not None or missed or (not entrant.ours and trial.seconds > _NEXT * limit):
            break
    return True


def _limit(case: Case, entrant: Entrant, effort: float, records: Records[Trial], setup: Setup) -> float:
    """`auto` has what its marks allow, if that is more; a method by name half as long again as `auto`."""
    if entrant.name == "auto":
        return max(setup.limit, *(mark.seconds or 0.0 for mark in case.marks), 0.0)
    auto = records.get((case.name, "auto", effort))
    if entrant.ours and auto is not None:
        return min(setup.limit, max(_LEAST, _PATIENCE * auto.seconds))
    return setup.limit


def _judged(case: Case, problem: Problem, entrant: Entrant, effort: float, limit: float) -> Trial:
    """The network is certified when the clock has stopped, whoever made it; what fails is a result, too."""
    seconds, spent = math.inf, 0.0
    for _ in range(_TIMES):
        began = time.process_time()
        try:
            done = entrant.train(problem, effort, limit)
        except (ValueError, ArithmeticError, MemoryError, RuntimeError, ImportError) as error:
            took = time.process_time() - began
            return Trial(case.name, entrant.name, effort, took, ours=entrant.ours, error=str(error)[:200])
        seconds = min(seconds, time.process_time() - began)
        spent += time.process_time() - began
        if spent > _AGAIN:
            break
    gap = None if done.network is None else _proven(problem, done.network, done.theta)
    return Trial(case.name, entrant.name, effort, seconds, gap, entrant.ours, done.ran)


def _proven(problem: Problem, network: nn.Module, theta: Tensor | None) -> float:
    """The relative gap by the network's own gradient, and by the dual point that came with it, judged anew."""
    certificate = certify(problem, network)
    if theta is not None:
        certificate = certificate.sharpened_by(problem, judged(problem.program, theta / problem.units.dual))
    return certificate.relative_gap
