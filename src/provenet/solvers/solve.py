"""`solve`: choose a method, run it, certify what it returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from provenet.certificates import certify
from provenet.problem import Problem
from provenet.solvers.admm import ADMM
from provenet.solvers.cvx import CVX
from provenet.solvers.loop import Callback, Limits, Method, Record, run
from provenet.solvers.solution import Solution
from provenet.solvers.status import Status
from provenet.solvers.threads import right_threads
from provenet.variable import Factors

METHODS: dict[str, type[Method[Any]]] = {"admm": ADMM, "cvx": CVX}


def solve(
    problem: Problem,
    method: str | Method[Any] = "auto",
    tol: float = 1e-6,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    start: Solution | Factors | None = None,
    callback: Callback | None = None,
) -> Solution:
    if not (isinstance(tol, (int, float)) and tol > 0):
        raise ValueError(f"tol: it must be a positive number, got {tol!r}.")
    chosen = method if isinstance(method, Method) else METHODS[method]()
    reason = chosen.refuses(problem.program)
    if reason is not None:
        raise ValueError(f"method: '{chosen.name}' cannot take this problem: {reason}")
    begin = start.factors if isinstance(start, Solution) else start
    scale = problem.value_scale
    # a hair below tol, so that the recomputed certificate, with its own rounding, still holds
    limits = Limits(0.9 * tol, max_steps, max_seconds)
    tell = None if callback is None else lambda record: callback(_in_user_units(record, scale))
    with right_threads(problem.program.operator):
        done = run(chosen, problem.program, limits, begin, tell)
        certificate = certify(problem, problem.network(done.factors), tol)
    status = _judged(done.status, certificate.relative_gap, tol)
    history = [_in_user_units(record, scale) for record in done.history]
    return Solution(problem, chosen.name, status, done.factors, certificate, done.steps, done.seconds, history)


def _judged(status: Status, gap: float, tol: float) -> Status:
    """The certificate has the last word on whether a run solved its problem."""
    if gap <= tol:
        return Status.SOLVED
    if status in (Status.SOLVED, Status.STALLED):
        return Status.SOLVED_INACCURATE if gap <= 100 * tol else Status.STALLED
    return status


def _in_user_units(record: Record, scale: float) -> Record:
    return replace(record, primal=record.primal * scale, dual=record.dual * scale)
