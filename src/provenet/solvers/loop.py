"""The one loop.  A method only says what its first state is, what a step is, and which point it stands at."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import (
    DualPoint,
    Gap,
    Mixture,
    Screen,
    better_dual,
    duality_gap,
    gap_at,
    judged,
    known_at_zero,
)
from provenet.polar import is_dear, is_large
from provenet.problem import Program, Units
from provenet.ranks import current
from provenet.reductions import Reduction
from provenet.solvers.first import first_neurons
from provenet.solvers.needs import RESIDENT, Ability
from provenet.solvers.offers import Offer, Task
from provenet.solvers.points import Point, Record
from provenet.solvers.resume import continued, keep
from provenet.solvers.snapshot import current as current_snapshots
from provenet.solvers.status import Status
from provenet.solvers.threads import product_size
from provenet.variable import Factors
from provenet.wrong_use import WrongUse

State = TypeVar("State")
Kept = tuple[dict[str, Any], dict[str, Tensor]]

_BEYOND = 1.01  # a polar this much beyond β, and zero is far from optimal
_WORTH_MIXING = 3e8  # multiply-adds of A(Z) from which on a search for a better dual point costs less than steps do
_CLOSE = 0.3  # a relative gap: while it is larger, gradients are too far apart for their mixtures to prove much
_IN_REACH = (
    20  # times the gap that is asked for: from farther, no mixture gets there, and unless the run ends none is tried
)
_DEAR, _LONGER = 1.0, 1.2  # seconds of a look for which time is kept back at the end, and by how much longer it may be,
_MOST_KEPT_BACK = 0.25  # if it is not more than this part of the limit
_WORTH_PROVING = 0.5  # of the gap: what a mixture must promise, to have its polars bounded while the run goes on,
_WORTH_THE_END = 0.05  # or where it ends with that
_LOOSE = 0.5  # of how far a polar's bound is beyond β: if less is looseness, it is the network that is not there yet
_IN_SIGHT = 6  # times the gap that is asked for: so near the end, what a look has made of a point is looked at, too
_NEARLY = 1e-4  # beyond what a dual point promises: near enough


class Refused(WrongUse):
    """The method asked for cannot take the problem."""


class Method(ABC, Generic[State]):
    """Frozen settings; all that changes is in the state."""

    name: str  # its own
    family: str = ""  # the word for all methods of its kind, of which a user gets those that take the program
    needs: tuple[Ability, ...] = ()  # of the program's gauge, loss and operator
    check_every: int = 1  # steps between two looks at the gap; if more, later looks are up to ten times rarer
    reduces: bool = True  # whether the program is reduced first; False: it is taken as it is
    together: bool = False  # whether it takes programs whose samples are spread over processes
    wants: tuple[Reduction, ...] = ()  # reductions of its own, after those that every method gets
    shards: bool = False  # whether few enough passes over the data are made for them to be read in shards

    def in_units(self, units: Units) -> Method[State]:
        """The method for programs in these units; its own settings are in the user's."""
        return self

    @property
    def patience(self) -> int:
        """Looks without progress before the run counts as stalled."""
        return 50

    @property
    def max_steps(self) -> int:
        return 10_000

    def refuses(self, program: Program) -> str | None:
        """Why this method cannot take this program, in a sentence; None if it can.  Asked before the reductions that
        it ``wants``, and often: it must be cheap.  What only shows in the work, ``init`` raises as `Refused`."""
        if program.operator.shards.spread and not self.together:
            return "its samples are spread over processes, and it wants them in one; 'lbfgs' does not."
        needs = self.needs if self.shards else (RESIDENT, *self.needs)
        unmet = (ability.unmet(program) for ability in needs)
        return next((reason for reason in unmet if reason is not None), None) or self.declines(program)

    def declines(self, program: Program[Any]) -> str | None:
        """Why not, where the program has all that is needed: its size, say."""
        return None

    def memory(self, program: Program[Any]) -> int:
        """Bytes a run will allocate beyond the program itself, told before anything is allocated."""
        return 4 * program.operator.stack_bytes

    def offer(self, task: Task) -> Offer:
        """What it would take for a program that it does not refuse; cheap to ask, as `refuses` is."""
        return Offer(self.memory(task.program))

    def pause(self, program: Program[Any], state: State, step: int) -> int:
        """Steps until the next look.  A look costs about as much as a step: long runs can wait a tenth of their
        length."""
        every = self.check_every
        return every if every == 1 else min(max(step // 10, every), 10 * every)

    def ends(self, program: Program[Any]) -> bool:
        """Whether nothing follows where it was asked for by name; else those that finish do, if it stops short."""
        return True

    def work(self, program: Program[Any]) -> float:
        """Multiply-adds of the largest product of a step: how many threads are worth their while."""
        return product_size(program)

    @abstractmethod
    def init(self, program: Program[Any], start: Factors | None) -> State: ...

    @abstractmethod
    def step(self, program: Program[Any], state: State) -> State: ...

    @abstractmethod
    def point(self, program: Program[Any], state: State) -> Point: ...

    def look(self, program: Program[Any], state: State, gap: Gap) -> State:
        """Told the gap at each look: a method may change its course."""
        return state

    def renewed(self, state: State) -> bool:
        """Whether the last look has made another point, worth a look of its own before any step."""
        return False

    def finished(self, state: State) -> bool:
        """True where the method itself knows that it can go no further."""
        return False


class Resumable(Method[State]):
    """A method that can go on from a snapshot."""

    @abstractmethod
    def kept(self, state: State) -> Kept:
        """A state as numbers, ready for JSON, and tensors, for a snapshot."""

    @abstractmethod
    def resumed(self, program: Program[Any], kept: Kept) -> State:
        """The state of a snapshot."""


@dataclass
class Run:
    """What the loop hands back."""

    status: Status
    factors: Factors
    steps: int
    seconds: float
    history: list[Record] = field(default_factory=list)
    proven: DualPoint | None = None  # that of the best bound of p* seen,
    judged: DualPoint | None = None  # and of the best that the judge, not a method, has seen
    bias: Tensor | None = None  # the free intercept of the network of these factors, once it is known


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
    at each look; a true answer stops the run.  What takes long within a step or a look knows the time limit
    (`provenet.deadline`).  Ctrl-C loses at most the step that it interrupts.
    """
    course = _Course(method, program, limits, callback)
    with deadline.within(limits.max_seconds):
        try:
            status = course.to_its_end(start)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            course.salvage()
        except deadline.TooLong:
            status = Status.TIME_LIMIT
            course.salvage()
        except (
            ArithmeticError,
            np.linalg.LinAlgError,
            torch.linalg.LinAlgError,
        ):  # overflow, or a factorisation broke down
            status = Status.NONFINITE
    found = course.best.factors()
    if status is Status.TIME_LIMIT and found.n_neurons == 0 and course.at_zero is not None:
        found = first_neurons(program, course.at_zero)
    return Run(status, found, course.step, course.seconds, course.history, course.proven, course.judged)


class _Course:
    """A run so far: where it stands, and the best point seen."""

    def __init__(self, method: Method[Any], program: Program, limits: Limits, callback: Callback | None):
        program = program.remembering()
        self.method, self.program, self.limits, self.callback = method, program, limits, callback
        self.began = time.perf_counter()
        self.state: Any = None
        self.step = 0
        self.seen = -1  # the last step whose point was looked at
        self.best = Point.of(program.nobody, program.operator.space.zeros(*program.operator.output_shape))
        self.at_zero: Gap | None = None
        self.best_gap = self.best_primal = math.inf
        self.proven: DualPoint | None = None
        self.judged: DualPoint | None = None
        mixes = product_size(program) >= _WORTH_MIXING and Mixture.serves(program)
        self.mixture = Mixture(program) if mixes else None  # then a dual point holds for all that come after it
        self.screen = Screen(program) if Screen.serves(program) else None
        self.history: list[Record] = []
        self.look_seconds = 0.0  # of the last look
        self.progress_gap, self.since_progress, self.next_look = math.inf, 0, 0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def _kept_back(self) -> float:
        """Seconds that steps leave for a last look, where one takes long: without it the run's end would prove little.
        Nothing where that would be most of the time, or where processes would have to agree on it."""
        dear = _DEAR < self.look_seconds < _MOST_KEPT_BACK * (self.limits.max_seconds or 0.0)
        return _LONGER * self.look_seconds if dear and current() is None else 0.0

    def to_its_end(self, start: Factors | None) -> Status:
        method, program = self.method, self.program
        began = time.perf_counter()
        self.at_zero = gap = _gap_at_zero(program, self.best)
        self.look_seconds = time.perf_counter() - began
        self.best_gap, self.best_primal = gap.absolute, gap.primal
        self.proven = self.judged = gap.at
        if gap.relative <= self.limits.tol:
            self._record(gap)
            return Status.SOLVED
        max_steps = method.max_steps if self.limits.max_steps is None else self.limits.max_steps
        saved = current_snapshots() if isinstance(method, Resumable) else None
        if saved is None or not continued(self, saved):
            self.state = method.init(program, start)
        while True:
            kept_back = self._kept_back
            out_of_steps = self.step >= max_steps
            out_of_time = deadline.over() or (kept_back > 0 and deadline.left() <= kept_back)
            finished = method.finished(self.state)
            if self.step >= self.next_look or out_of_steps or out_of_time or finished:
                self.next_look = self.step + method.pause(program, self.state, self.step)
                gap = self._look(last=out_of_steps or out_of_time or finished)
                if not _finite(gap):
                    return Status.NONFINITE
                told_to_stop = self._told(gap)
                if gap.relative <= self.limits.tol:
                    return Status.SOLVED
                self.since_progress += 1
                if self.best_gap <= 0.9 * self.progress_gap:
                    self.progress_gap, self.since_progress = self.best_gap, 0
                if told_to_stop:
                    return Status.INTERRUPTED
                if out_of_time or out_of_steps:
                    return Status.TIME_LIMIT if out_of_time else Status.MAX_STEPS
                if finished or self.since_progress >= method.patience:
                    return Status.STALLED
                self.state = method.look(program, self.state, gap)
                if gap.relative <= _IN_SIGHT * self.limits.tol and method.renewed(self.state):
                    gap = self._look(last=False)
                    if _finite(gap) and gap.relative <= self.limits.tol:
                        self._told(gap)
                        return Status.SOLVED
            kept_back = self._kept_back
            with deadline.within(deadline.left() - kept_back if kept_back else None):
                self.state = method.step(program, self.state)
            self.step += 1
            if saved is not None and saved.is_due(self.step):
                keep(self, saved)

    def salvage(self) -> None:
        """After a break: what the last step reached, if no look has seen it yet, judged in no time."""
        if self.state is None or self.seen == self.step:
            return
        with suppress(deadline.TooLong), deadline.within(0.0):
            gap = self._look(last=True)
            if _finite(gap):
                self._record(gap)

    def _look(self, last: bool) -> Gap:
        """The gap where the run stands, by its own gradient, or, where points are mixed, by the best dual point so far;
        the best point is kept."""
        point = self.method.point(self.program, self.state)
        if self.at_zero is not None and point.penalty == 0 and not bool(point.prediction.any()):  # most begin there
            own = self.at_zero
        else:
            began = time.perf_counter()
            asked: dict[str, Any] = {"tol": self.limits.tol, "screen": self.screen, "least": point.least}
            own = duality_gap(self.program, point.prediction, point.penalty, **asked)
            self.look_seconds = time.perf_counter() - began
        self.seen = self.step
        if not _finite(own):
            return own
        self.judged = better(self.judged, own.at)
        gap = self._by_ellipsoids(own) if self.mixture is None else self._by_best_dual(own, self.mixture, last)
        self.proven = better(self.proven, self.judged, point.dual)
        # where the polar is bounds, not a number, or the dual point all points', the gap may favour a worse network:
        # the objective decides
        told = self.program.gauge.exact_polar and not is_dear(self.program.operator)
        exact = self.mixture is None and (told or gap.relative <= self.limits.tol)
        if gap.absolute < self.best_gap if exact else gap.primal < self.best_primal:
            self.best, self.best_primal = point, gap.primal
        self.best_gap = min(self.best_gap, gap.absolute)
        return gap

    def _by_ellipsoids(self, own: Gap) -> Gap:
        """The gap by a dual point that is better for the bounds of its polars, where these leave it open."""
        loose = own.polar_max - max(own.polar_least, self.program.beta)
        if own.relative <= self.limits.tol or not loose > _LOOSE * (own.polar_max - self.program.beta):
            return own
        found = None
        with suppress(deadline.TooLong, torch.linalg.LinAlgError):  # it is a guess: the look stands without it
            found = better_dual(self.program, own.at)
        if found is None:
            return own
        enough = max(found.polar_max, self.program.beta) * (1 + _NEARLY)
        self.judged = better(self.judged, judged(self.program, found.theta, final=False, enough=enough))
        return replace(own, at=better(own.at, self.judged) or own.at)

    def _by_best_dual(self, own: Gap, mixture: Mixture, last: bool) -> Gap:
        """The gap by whatever proves most: a mixture of the gradients seen, where that promises to, by much or to the
        end."""
        mixture.add(own.at.theta, own.pull)
        known = -math.inf if self.judged is None else self.judged.lower
        open_gap = own.primal - known
        close = _CLOSE if last else min(_CLOSE, _IN_REACH * self.limits.tol)
        if self.limits.tol < open_gap / abs(own.primal) < close:
            to_the_end = max(open_gap - self.limits.tol * abs(own.primal), _WORTH_THE_END * open_gap)
            worth = _WORTH_THE_END * open_gap if last else min(_WORTH_PROVING * open_gap, to_the_end)
            theta = mixture.better(known, worth)
            if theta is not None:
                self.judged = better(self.judged, judged(self.program, theta, final=False, screen=self.screen))
        return own if self.judged is None else replace(own, at=self.judged)

    def _told(self, gap: Gap) -> bool:
        """Of a look, to whoever listens; the answer says whether to stop."""
        record = self._record(gap)
        return self.callback is not None and bool(self.callback(record))

    def _record(self, gap: Gap) -> Record:
        record = Record(self.step, self.seconds, gap.primal, gap.dual, gap.relative)
        self.history.append(record)
        return record


def better(*points: DualPoint | None) -> DualPoint | None:
    """The one that proves most; the first of equals."""
    return max((point for point in points if point is not None), key=lambda point: point.lower, default=None)


def _finite(gap: Gap) -> bool:
    return math.isfinite(gap.primal) and math.isfinite(gap.polar_max)


def _gap_at_zero(program: Program, zero: Point) -> Gap:
    """As it can be had at once, where that shows a neuron that pulls harder than β: zero is then not the answer.

    Where bounds of polars take many passes over the data, and β_max was asked for, that is one."""
    if is_large(program.operator) and (at := known_at_zero(program, zero.prediction)) is not None:
        return gap_at(program, zero.prediction, zero.penalty, at)
    with deadline.at_once():
        gap = duality_gap(program, zero.prediction, zero.penalty)
    settled = gap.polar_least > _BEYOND * program.beta or not program.gauge.tightens or deadline.over()
    return gap if settled else duality_gap(program, zero.prediction, zero.penalty)
