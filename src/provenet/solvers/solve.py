"""`solve`: choose methods, run them one after the other, certify what they return."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from provenet import deadline
from provenet.certificates import Certificate, network_certificate
from provenet.gauges import ConeColumns, SignNorm
from provenet.gauges.prox.mixed import signs
from provenet.operators import ByOutput, Lifted
from provenet.problem import Problem, Program
from provenet.solvers.cones.closed_form import ClosedForm
from provenet.solvers.cones.tidy import tidied
from provenet.solvers.loop import Callback, Limits, Method, Record, Run, run
from provenet.solvers.plan import METHODS, Stage, plan
from provenet.solvers.solution import Solution
from provenet.solvers.status import Status
from provenet.solvers.threads import product_size, right_threads
from provenet.variable import Factors

__all__ = ["METHODS", "solve"]

_OUTSIDE = 32 * torch.finfo(torch.float64).eps
_PROOF_SECONDS, _PROOF_SHARE = 1.0, 0.1  # of a time limit, the longer: what the certificate may take beyond it


@torch.inference_mode(False)
def solve(
    problem: Problem,
    method: str | Method[Any] = "auto",
    tol: float = 1e-6,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    start: Solution | Factors | nn.Module | None = None,
    callback: Callback | None = None,
) -> Solution:
    """The best network of a problem, with its certificate.

    method: "auto", "admm", "ipm", "apg", "bm", "cvx", or a method object; ``solution.method`` says what ran.
    tol: the relative gap asked for.  max_steps, max_seconds: limits of the whole run; the certificate comes after them
    and may take a second, or a tenth of ``max_seconds``, more.  start: a solution of a problem with the same data and
    gates to begin from, or a network with these gates, however it was trained.  callback: gets a `Record` at each look
    at the gap; a true answer stops the run.
    """
    _check_positive(tol, "tol")
    if max_seconds is not None:
        _check_positive(max_seconds, "max_seconds")
    if max_steps is not None and not (isinstance(max_steps, Integral) and max_steps >= 0):
        raise ValueError(f"max_steps: it must be a whole number from zero on, or None, got {max_steps!r}.")
    scale = problem.units.value
    tell = None if callback is None else lambda record: callback(_in_user_units(record, scale))
    # a hair below tol, so that the recomputed certificate, with its own rounding, still holds
    limits = Limits(0.9 * tol, max_steps, max_seconds)
    begin = start.factors if isinstance(start, Solution) else start
    if isinstance(begin, nn.Module):
        begin = problem.factors(begin)
    if begin is not None:
        _check_start(problem.program, begin)
    with deadline.within(max_seconds):
        done, name = _run_reduced(problem.program, method, limits, begin, tell)
    with right_threads(product_size(problem.program)), deadline.within(_for_the_proof(max_seconds, done.seconds)):
        certificate = _proven(problem, done, tol)
    status = _judged(done.status, certificate.relative_gap, tol)
    history = [_in_user_units(record, scale) for record in done.history]
    lower = max(certificate.dual, done.lower * scale)
    return Solution(problem, name, status, done.factors, certificate, done.steps, done.seconds, history, lower)


def _for_the_proof(max_seconds: float | None, used: float) -> float | None:
    """Seconds for the certificate: what the run has left, and some beyond; it says what it can prove by then."""
    if max_seconds is None:
        return None
    return max(max_seconds - used, 0.0) + max(_PROOF_SECONDS, _PROOF_SHARE * max_seconds)


def _proven(problem: Problem, done: Run, tol: float) -> Certificate:
    """The certificate of the run's neurons, tidied and moved inside their cones; Ctrl-C has it at once, if looser."""
    program = problem.program
    try:
        if done.status is Status.SOLVED:
            done.factors = tidied(program, done.factors, 0.9 * tol)
        done.factors = _feasible(program, done.factors)
        return network_certificate(problem, problem.network(done.factors), tol)
    except KeyboardInterrupt:
        done.status = Status.INTERRUPTED
        with deadline.within(0.0):
            done.factors = _feasible(program, done.factors)
            return network_certificate(problem, problem.network(done.factors), tol)


def _check_start(program: Program, start: Factors) -> None:
    op = program.operator
    if not isinstance(start, Factors):
        raise ValueError(f"start: a Solution, a network or Factors are needed, got {type(start).__name__}.")
    sizes = start.left.shape[1], start.right.shape[1]
    if sizes != (op.p, op.q) or bool((start.gate >= op.n_gates).any()):
        raise ValueError(
            f"start: it is of another problem, with {sizes[0]} and {sizes[1]} weights a neuron or other gates; "
            f"this one has {op.p} and {op.q}, and {op.n_gates} gates."
        )


def _check_positive(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not value > 0:
        raise ValueError(f"{name}: it must be a positive number, got {value!r}.")


def _run_reduced(
    program: Program, method: str | Method[Any], limits: Limits, start: Factors | None, tell: Callback | None
) -> tuple[Run, str]:
    """In fewer dimensions where the data have fewer (CP A.2); the factors come back in all of them."""
    if method == "auto" and ClosedForm().refuses(program) is None:
        method = ClosedForm.name  # what "auto" would choose, without a decomposition of X
    chosen = METHODS.get(method) if isinstance(method, str) else method
    reduced = program.operator.reduced() if chosen is None or chosen.reduces else None
    gauge = None if reduced is None else program.gauge.within(reduced[1])
    if reduced is None or gauge is None:
        return _run_lifted(program, method, limits, start, tell)
    operator, basis = reduced
    small = replace(program, operator=operator, gauge=gauge)
    begin = None if start is None else replace(start, left=start.left @ basis)
    done, name = _run_lifted(small, method, limits, begin, tell)
    done.factors = replace(done.factors, left=done.factors.left @ basis.T)
    if done.lower > -float("inf") and not _spans(basis, program):
        done.lower = -float("inf")
    return done, name


def _spans(basis: Tensor, program: Program) -> bool:
    """Whether nothing but rounding is left outside the basis (p, r): only then are bounds of the smaller program
    bounds of the whole one, however small β is."""
    target = program.loss.target
    chance = torch.randn(target.shape, generator=torch.Generator().manual_seed(0), dtype=target.dtype)
    G = program.operator.adjoint(chance)
    outside = torch.linalg.matrix_norm(G - basis @ (basis.T @ G))
    return bool((outside <= _OUTSIDE * torch.linalg.matrix_norm(G)).all())


def _run_lifted(
    program: Program, method: str | Method[Any], limits: Limits, start: Factors | None, tell: Callback | None
) -> tuple[Run, str]:
    """With a weight for each of the neurons that an ∞- or a 1-norm leaves: with signs for weights (`SignNorm`), or with
    one output (`ConeColumns`)."""
    op, gauge = program.operator, program.gauge
    operator: Lifted | ByOutput
    if isinstance(gauge, SignNorm):
        by_rows = gauge.by_rows(op.p, op.q)
        operator = Lifted(op, signs(op.space, op.p if by_rows else op.q), by_rows)
        large = replace(program, operator=operator, gauge=gauge.lifted(op.p, op.q))
    elif isinstance(gauge, ConeColumns):
        operator = ByOutput(op)
        large = replace(program, operator=operator, gauge=gauge.apart(op.q))
    else:
        return _run_stages(program, plan(program, method), limits, start, tell)
    begin = None if start is None else operator.raised(start)
    done, name = _run_stages(large, plan(large, method), limits, begin, tell)
    done.factors = operator.lowered(done.factors)
    return done, name


def _feasible(program: Program, factors: Factors) -> Factors:
    """ReLU neurons strictly inside their cones, so that the network opens the rows the program opens."""
    return program.gauge.inside(factors)


def _run_stages(
    program: Program, stages: list[Stage], limits: Limits, start: Factors | None, tell: Callback | None
) -> tuple[Run, str]:
    """Each stage begins where the best one before it stopped, with what is left of the limits."""
    began = time.perf_counter()
    total = Run(Status.MAX_STEPS, Factors.empty(program.operator.p, program.operator.q), 0, 0.0)
    names: list[str] = []
    best = float("inf")
    for stage in stages:
        elapsed = time.perf_counter() - began
        shift = _shifted(total.steps, elapsed)
        left = _left(limits, total.steps, elapsed, stage.max_steps)
        begin = total.factors if names else start
        with right_threads(stage.method.work(program)):
            done = run(stage.method, program, left, begin, None if tell is None else _after(shift, tell))
        names.append(stage.method.name)
        gap = min((record.primal - record.dual for record in done.history), default=float("inf"))
        if gap < best or len(names) == 1:
            best, total.factors = gap, done.factors
        total.status = done.status
        total.history += [shift(record) for record in done.history]
        total.steps += done.steps
        total.lower = max(total.lower, done.lower)
        out_of_steps = limits.max_steps is not None and total.steps >= limits.max_steps
        if out_of_steps or done.status in (Status.SOLVED, Status.INTERRUPTED, Status.TIME_LIMIT):
            break
    total.seconds = time.perf_counter() - began
    return total, " + ".join(names)


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


def _judged(status: Status, gap: float, tol: float) -> Status:
    """The certificate has the last word on whether a run solved its problem."""
    if gap <= tol:
        return Status.SOLVED
    if status in (Status.SOLVED, Status.STALLED):
        return Status.SOLVED_INACCURATE if gap <= 100 * tol else Status.STALLED
    return status


def _in_user_units(record: Record, scale: float) -> Record:
    return replace(record, primal=record.primal * scale, dual=record.dual * scale)
