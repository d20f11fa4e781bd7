"""A run of the loop as numbers and tensors, and back: nothing that decides its course is left out."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor

from provenet.certificates import DualPoint
from provenet.gauges import BoundKind
from provenet.solvers.points import Point, Record
from provenet.solvers.snapshot import Snapshots
from provenet.variable import Factors

if TYPE_CHECKING:
    from provenet.solvers.loop import Resumable, _Course

_NUMBERS = ("best_gap", "best_primal", "progress_gap", "since_progress", "next_look")


def keep(course: _Course, saved: Snapshots) -> None:
    """Where a run stands after a step, into a snapshot."""
    method: Resumable[Any] = course.method  # type: ignore[assignment]  # the loop has asked
    numbers, own = method.kept(course.state)
    tensors = {f"method.{name}": tensor for name, tensor in own.items()}
    told: dict[str, Any] = {"method": numbers}
    thetas: list[Tensor] = []
    told["course"] = {name: getattr(course, name) for name in _NUMBERS} | {"step": course.step}
    told["seconds"], told["history"] = course.seconds, [asdict(record) for record in course.history]
    told["dual"] = {name: _told(getattr(course, name), thetas) for name in ("proven", "judged")}
    mixed = [] if course.mixture is None else course.mixture.points
    told["mixed"] = [_number(theta, thetas) for theta, _ in mixed]
    tensors |= {f"pull.{i}": pull for i, (_, pull) in enumerate(mixed)}
    met = None if course.screen is None else course.screen.last
    told["met"] = None if met is None else _number(met.theta, thetas)
    tensors |= {} if met is None else {"met.upper": met.upper}
    if (guess := course.program.loss.guess) is not None:
        tensors["guess"] = guess
    best = course.best.factors()
    tensors |= {"best.left": best.left, "best.right": best.right, "best.gate": best.gate}
    tensors |= {f"theta.{i}": theta for i, theta in enumerate(thetas)}
    saved.keep(course.program, repr(course.method), course.step, told, tensors)


def continued(course: _Course, saved: Snapshots) -> bool:
    """Whether a snapshot was there; then the run stands where that one stood."""
    found = saved.begin(course.program, repr(course.method))
    if found is None:
        return False
    told, tensors = found
    own = {name.removeprefix("method."): t for name, t in tensors.items() if name.startswith("method.")}
    method: Resumable[Any] = course.method  # type: ignore[assignment]  # the loop has asked
    course.state = method.resumed(course.program, (told["method"], own))
    for name, value in told["course"].items():
        setattr(course, name, value)
    course.began = time.perf_counter() - told["seconds"]
    course.history = [Record(**record) for record in told["history"]]
    for name, dual in told["dual"].items():
        setattr(course, name, _dual(dual, tensors))
    if course.mixture is not None:
        for i, theta in enumerate(told["mixed"]):
            course.mixture.add(tensors[f"theta.{theta}"], tensors[f"pull.{i}"])
    if course.screen is not None and told["met"] is not None:
        course.screen.met(tensors[f"theta.{told['met']}"], tensors["met.upper"])
    best = Factors(*(tensors[f"best.{name}"] for name in ("left", "right", "gate")))
    course.best = Point.of(best, course.program.operator.forward_factors(best))
    if "guess" in tensors:
        course.program.loss.begin_at(tensors["guess"])
    return True


def _told(dual: DualPoint | None, thetas: list[Tensor]) -> dict[str, Any] | None:
    if dual is None:
        return None
    numbers = {"polar_max": dual.polar_max, "bound": dual.bound.value, "lower": dual.lower}
    return numbers | {"theta": _number(dual.theta, thetas)}


def _dual(told: dict[str, Any] | None, tensors: dict[str, Tensor]) -> DualPoint | None:
    if told is None:
        return None
    return DualPoint(tensors[f"theta.{told['theta']}"], told["polar_max"], BoundKind(told["bound"]), told["lower"])


def _number(theta: Tensor, thetas: list[Tensor]) -> int:
    """Its place in the list, where each is once."""
    for i, known in enumerate(thetas):
        if known is theta:
            return i
    thetas.append(theta)
    return len(thetas) - 1
