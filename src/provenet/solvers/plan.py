"""Which methods to run, one after the other, for a named method."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from provenet import batches, deadline, memory, names
from provenet.problem import Program
from provenet.solvers.loop import Method, Refused
from provenet.solvers.offers import Offer, Task

METHODS: Mapping[str, type[Method[Any]]] = names.METHODS

_SHARE = 0.5  # of the free memory that a method chosen for the user may take
_OVERTIME = 6  # times the steps expected: then the next one takes over
_FEW = 50  # steps: a limit is a multiple of them
_WORTH_TRYING = 10  # times the work of the first: a second one begins from there only if it is no dearer


@dataclass(frozen=True)
class Stage:
    """A method and how many steps it gets before the next one takes over; None: its own limit."""

    method: Method[Any]
    max_steps: int | None = None


def check_method(method: Any) -> None:
    if isinstance(method, Method) or (isinstance(method, str) and (method == "auto" or method in METHODS)):
        return
    raise ValueError(f"method: {method!r} is unknown; choose 'auto' or one of {', '.join(map(repr, METHODS))}.")


def plan_unreduced(program: Program, method: str | Method[Any]) -> list[Stage]:
    """The stages that take a program as it is, before any reduction; none where the method is for what they leave."""
    if method == "auto":
        as_it_is = (kind() for kind in METHODS.values() if not kind.reduces)
        return [Stage(one) for one in as_it_is if one.refuses(program) is None]
    chosen = METHODS.get(method) if isinstance(method, str) else method
    if chosen is None or chosen.reduces:
        return []
    return [Stage(_able(chosen() if isinstance(chosen, type) else chosen, program))]


def plan(program: Program, method: str | Method[Any], tol: float) -> list[Stage]:
    """The stages of a method.  Each starts where the one before stopped; later ones only run if it stopped short."""
    if isinstance(method, Method):
        return [Stage(_able(method, program))]
    check_method(method)
    task = Task(program, tol)
    if method == "auto":
        return _cheapest(task)
    chosen = _of_family(method, program)
    return [Stage(chosen), *([] if chosen.ends(program) else _finishers(_offers(task)))]


def _of_family(word: str, program: Program) -> Method[Any]:
    """The first method of this name or family that takes the program."""
    family = [kind() for name, kind in METHODS.items() if word in (name, kind.family)]
    reasons = [one.refuses(program) for one in family]
    for one, reason in zip(family, reasons, strict=True):
        if reason is None:
            return _able(one, program)
    first, *others = (f"'{one.name}' cannot take this problem: {why}" for one, why in zip(family, reasons, strict=True))
    raise Refused(" Nor can its kind: ".join([f"method: {first}", *others]))


def _able(method: Method[Any], program: Program) -> Method[Any]:
    reason = method.refuses(program)
    if reason is not None:
        raise Refused(f"method: '{method.name}' cannot take this problem: {reason}")
    needed = method.memory(program)
    if needed > batches.share(1):
        raise MemoryError(
            f"memory_limit: '{method.name}' needs about {memory.shown(needed)} beyond the problem itself, and "
            f"{memory.shown(batches.share(1))} are allowed; 'lbfgs' can go over the samples in shards."
        )
    memory.check_fits(
        needed,
        f"method: '{method.name}'",
        "Take fewer gates or samples, or a method that needs less ('apg', 'bm').",
    )
    return method


Offers = list[tuple[Offer, Method[Any]]]


def _offers(task: Task) -> Offers:
    """Of every method that makes some and takes the program, the least work first; others run only if asked for, and
    whether they would take it may be dear to know."""
    methods = (kind() for kind in METHODS.values() if kind.reduces and kind.offer is not Method.offer)
    offers = [(one.offer(task), one) for one in methods if one.refuses(task.program) is None]
    return sorted(offers, key=lambda pair: pair[0].work)


def _cheapest(task: Task) -> list[Stage]:
    """The cheapest start; the next one, where that is no gamble; then what finishes.

    A start that goes on for long beyond what it expected was wrong about the program: the next one takes over.
    """
    offers = _offers(task)
    starts = [pair for pair in offers if pair[0].starts]
    work = deadline.FAST * deadline.left()
    if starts and starts[0][0].work > work:  # none ends in time: the one that gets farthest
        starts.sort(key=lambda pair: (pair[0].setup - work) / (pair[0].steps * pair[0].each))
    if not starts:
        raise Refused("method: none takes this problem by itself.")
    fitting = [pair for pair in starts if _fits(pair[0].bytes)]
    if not fitting:
        fitting = [min(starts, key=lambda pair: pair[0].bytes)]
        _able(fitting[0][1], task.program)  # says what is missing, if it is
    first, *others = fitting
    worth = [pair for pair in others if not pair[0].finishes and pair[0].work <= _WORTH_TRYING * first[0].work]
    tried = [first, *worth[:1]]
    finishers = [stage for stage in _finishers(offers) if len(tried) > 1 or stage.method.name != first[1].name]
    to_finish = max((offer.work for offer, _ in offers if offer.finishes), default=math.inf)
    stages = [Stage(one, _enough(offer, to_finish)) for offer, one in tried]
    return [*stages, *finishers] if finishers else [*stages[:-1], replace(stages[-1], max_steps=None)]


def _fits(size: int) -> bool:
    """Into what a user allows, or, where they do not say, into a share of the free memory."""
    limited = batches.share(1) < sys.maxsize
    return memory.fits(size) and size <= batches.share(1) if limited else memory.fits(size, _SHARE)


def _enough(offer: Offer, to_finish: float) -> int:
    """Steps of a start: some more than it expected, but no more work than a few times that of a finish."""
    return _FEW * math.ceil(_OVERTIME * min(offer.steps, to_finish / offer.each) / _FEW)


def _finishers(offers: Offers) -> list[Stage]:
    """What takes over where others crawl."""
    return [Stage(one) for offer, one in offers if offer.finishes]
