"""How long the work at hand may take, known to everything below without being handed down.

    with deadline.within(10.0):
        ...            # long inner loops ask ``deadline.over()`` and end with the best that they have

What cannot ask while it runs, a factorisation, is not begun where ``deadline.affords(work)`` says no; where there is no
other way, ``deadline.need(work)`` ends the method.  What is made in many parts goes through them by
``deadline.paced(parts)``, which ends it (`TooLong`) as soon as the clock says that the rest takes too long.
Who asks must be able to end early and be right: a bound is then looser, a search shorter, never wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import TypeVar

from provenet.ranks.context import current, least

Part = TypeVar("Part")

_GRACE, _GRACE_SHARE = 1.0, 0.1  # seconds, and of a limit: the longer
SPEED = 2e9  # multiply-adds a second that factorisations reach at least, on one core
FAST = 1e10  # those that products of large matrices usually reach: for what looks at the clock while it works
_PATIENCE = 0.2  # seconds that work in parts may take beyond a deadline, all of it,
_MOMENT = 0.02  # but for what is done in a moment
_SHOWN = 0.05  # of the time left, or `_PATIENCE`: what it gets to show its pace
_SHORTEST = 1e-3  # seconds: each part of a budget has an answer, if a poor one


class TooLong(Exception):
    """What is asked for cannot be done in the time left."""


_ENDS: ContextVar[float] = ContextVar("ends", default=math.inf)  # by time.perf_counter
_LAST: ContextVar[float] = ContextVar("last", default=math.inf)  # the same of work in parts
_NEURONS: ContextVar[float] = ContextVar("neurons", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """What is done in here has so many seconds, and no more than whoever called has; None: as many as they have."""
    ends = math.inf if seconds is None else time.perf_counter() + seconds
    tokens = [(which, which.set(min(ends, which.get()))) for which in (_ENDS, _LAST)]
    try:
        yield
    finally:
        for which, token in tokens:
            which.reset(token)


@contextmanager
def at_once() -> Iterator[None]:
    """What is done in here searches for nothing: time is over for it; products are still made, as there is time."""
    token = _ENDS.set(-math.inf)
    try:
        yield
    finally:
        _ENDS.reset(token)


@contextmanager
def judging(neurons: float) -> Iterator[None]:
    """What is found in here has, at best, no more neurons than there is time to judge."""
    token = _NEURONS.set(neurons)
    try:
        yield
    finally:
        _NEURONS.reset(token)


def neurons() -> float:
    return _NEURONS.get()


@contextmanager
def of_products() -> Iterator[None]:
    """What is done in here is made of products that are needed whatever the clock says; searches end as ever."""
    token = _LAST.set(math.inf)
    try:
        yield
    finally:
        _LAST.reset(token)


def grace(seconds: float) -> float:
    """What a proof may take beyond a limit of so many seconds."""
    return max(_GRACE, _GRACE_SHARE * seconds)


def over() -> bool:
    return left() <= 0


def left() -> float:
    """Seconds, infinite without a deadline, never negative; the least of any process, where several work together."""
    ends = _ENDS.get()
    return math.inf if ends == math.inf else least(max(ends - time.perf_counter(), 0.0))


def affords(work: float) -> bool:
    """Whether so many multiply-adds, of one operation that nothing can interrupt, are done in the time left."""
    return work <= SPEED * left()


def paced(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts of one piece of work, about as long each; raises `TooLong` where those before tell that the rest takes
    longer than there is time for.  Several processes must agree on what they do, and go through all of them."""
    began = time.perf_counter()
    for done, part in enumerate(parts):
        now = time.perf_counter()
        elapsed, spare = now - began, _LAST.get() - now + _PATIENCE
        told = done and elapsed > max(_SHOWN * spare, min(_PATIENCE, spare)) and current() is None
        if told and elapsed / done * (len(parts) - done) > max(spare, _MOMENT):
            raise TooLong
        yield part


def need_in_parts(work: float) -> None:
    """Raises `TooLong` where so many multiply-adds are not affordable to work in parts."""
    if current() is None and work > SPEED * max(_LAST.get() - time.perf_counter(), _MOMENT):
        raise TooLong


def need(work: float) -> None:
    """Raises `TooLong` where so many multiply-adds are not affordable: the method ends at the best point seen."""
    if not affords(work):
        raise TooLong


class Budget:
    """``seconds`` from now on for work of several parts: gates, folds, all values of β; None: as many as it takes."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0):
            raise ValueError(f"max_seconds: it must be a positive number, got {seconds!r}.")
        self.ends = None if seconds is None else time.perf_counter() + seconds

    def left(self, parts: int = 1) -> float | None:
        """For the next of so many parts with equal rights."""
        return None if self.ends is None else max((self.ends - time.perf_counter()) / parts, _SHORTEST)

    def within(self) -> AbstractContextManager[None]:
        """What is done in here knows how much time is left."""
        return within(self.left())

    @property
    def over(self) -> bool:
        return self.ends is not None and time.perf_counter() >= self.ends
