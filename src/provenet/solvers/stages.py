"""Methods one after the other, and what they found in the terms of the program before its reductions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from provenet import deadline
from provenet.certificates import DualPoint, dual_point
from provenet.problem import Program
from provenet.reductions import Back, reduced
from provenet.solvers.loop import Callback, Limits, Record, Run, better, run
from provenet.solvers.plan import Stage
from provenet.solvers.status import Status
from provenet.solvers.threads import right_threads
from provenet.variable import Factors


def run_stages(
    program: Program, stages: list[Stage], limits: Limits, start: Factors | None, tell: Callback | None
) -> tuple[Run, str]:
    """Each stage begins where the best one before it stopped, with what is left of the limits."""
    began = time.perf_counter()
    total = Run(Status.MAX_STEPS, program.nobody, 0, 0.0)
    names: list[str] = []
    best = float("inf")
    for stage in stages:
        elapsed = time.perf_counter() - began
        shift = _shifted(total.steps, elapsed)
        left = _left(limits, total.steps, elapsed, stage.max_steps)
        begin = total.factors if names else start
        small, back = reduced(program, stage.method.wants)
        begin = None if begin is None else back.start(begin)
        with right_threads(stage.method.work(small)):
            done = run(stage.method, small, left, begin, None if tell is None else _after(shift, tell))
        done = returned(done, program, back)
        names.append(stage.method.name)
        gap = min((record.primal - record.dual for record in done.history), default=float("inf"))
        if gap < best or len(names) == 1:
            best, total.factors = gap, done.factors
        total.status = done.status
        total.history += [shift(record) for record in done.history]
        total.steps += done.steps
        total.proven, total.judged = better(total.proven, done.proven), better(total.judged, done.judged)
        out_of_steps = limits.max_steps is not None and total.steps >= limits.max_steps
        # where one thing would have taken too long, another method may have an answer in the time left
        out_of_time = done.status is Status.TIME_LIMIT and deadline.over()
        if out_of_steps or out_of_time or done.status in (Status.SOLVED, Status.INTERRUPTED):
            break
    total.seconds = time.perf_counter() - began
    return total, " + ".join(names)


def returned(done: Run, program: Program, back: Back) -> Run:
    """A run on a reduced program in the terms of ``program``: its dual points prove what their reductions keep."""

    def whole(point: DualPoint | None) -> DualPoint | None:
        if point is None:
            return None
        return dual_point(program, point.theta, point.polar_max + back.hidden(point.theta), point.bound)

    same = done.judged is done.proven
    proven = whole(done.proven)
    return replace(
        done, factors=back.factors(done.factors), proven=proven, judged=proven if same else whole(done.judged)
    )


def _left(limits: Limits, steps: int, seconds: float, stage_steps: int | None) -> Limits:
    """What a stage may use up of the limits of the whole run."""
    caps = [stage_steps, None if limits.max_steps is None else limits.max_steps - steps]
    return Limits(
        limits.tol,
        min((cap for cap in caps if cap is not None), default=None),
        None if limits.max_seconds is None else limits.max_seconds - seconds,
    )


def _after(shift: Callable[[Record], Record], tell: Callback) -> Callback:
    return lambda record: tell(shift(record))


def _shifted(steps: int, seconds: float) -> Callable[[Record], Record]:
    """Records of a stage, as of the whole run."""
    return lambda record: replace(record, step=record.step + steps, seconds=record.seconds + seconds)
