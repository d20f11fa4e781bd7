"""`solve`: choose methods, run them one after the other, certify what they return."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from provenet import batches, deadline, memory, ranks
from provenet.certificates import AnotherMap, Certificate, check_same_data, judged, network_certificate, relu_point
from provenet.formulation.sharded import in_shards
from provenet.gauges import BoundKind
from provenet.polar import remembering
from provenet.problem import Problem, Program
from provenet.ranks.context import anywhere
from provenet.reductions import STANDARD, Inside, reduced
from provenet.solvers.cones.tidy import tidied
from provenet.solvers.grow import grown
from provenet.solvers.judging import Judging
from provenet.solvers.loop import Callback, Limits, Method, Record, Refused, Run
from provenet.solvers.plan import METHODS, check_method, plan, plan_unreduced
from provenet.solvers.solution import Solution
from provenet.solvers.stages import returned, run_stages
from provenet.solvers.status import Status
from provenet.solvers.threads import product_size, right_threads
from provenet.solvers.widen import widened, within_gates
from provenet.variable import Factors

__all__ = ["METHODS", "solve", "solve_quietly"]

Known = tuple[Factors, ...]
"""Neurons that a network is to be no worse than."""

_HAIR = 1e-9  # by which rounding may set two objectives apart


def solve(
    problem: Problem,
    method: str | Method[Any] = "auto",
    tol: float = 1e-6,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    start: Solution | Factors | nn.Module | None = None,
    callback: Callback | None = None,
    memory_limit: str | int | None = None,
) -> Solution:
    """The best network of a problem, with its certificate.  One that stops short warns (`ConvergenceWarning`).

    Parameters
    ----------
    problem : Problem
        As `provenet.formulate` makes it.
    method : str or Method, default "auto"
        "auto", a name, or a method object; ``solution.method`` says what ran.  By what they iterate on: one matrix a
        gate ("admm", "apg", "subspace"); neurons ("bm", and "lbfgs" for much data); interior points ("ipm",
        "active_ipm"; for ReLU "working_set", "copositive", "copositive_dual"); ReLU's cones ("cone_admm", "cone_bm",
        "frank_wolfe", "cutting_plane", "closed_form", "copositive_admm", and "line_frank_wolfe" for the penalties
        (1, 1) and (inf, 1)); "cvx" is the reference, through CVXPY.  "admm", "bm" and "copositive" are words for a
        family, too: the first member that takes the problem runs.  A method that cannot take it raises ValueError, and
        says why.
    tol : float, default 1e-6
        The relative gap asked for.
    max_steps : int, optional
        A limit of the whole run.
    max_seconds : float, optional
        A limit of the whole run; the certificate comes after it and may take a second, or a tenth of it, more.
    start : Solution, network or Factors, optional
        Where to begin: a solution of a problem with the same data and gates, or a network with these gates, however it
        was trained.
    callback : function, optional
        Gets a `Record` at each look at the gap; a true answer stops the run.
    memory_limit : str or int, optional
        "4GB", or bytes, that solving and certifying may allocate beyond what the process has; by default that of the
        problem, if it was posed with one.  Where no method keeps to it with the samples as they are in memory, "lbfgs"
        goes over them in shards.

    Returns
    -------
    Solution
        With ``status``, ``certificate``, ``network()``, ``steps``, ``seconds`` and ``history``.
    """
    limits = Limits(tol, max_steps, max_seconds)
    found = solve_quietly(problem, method, limits, start, callback, memory_limit)
    if found.status is not Status.SOLVED:
        warnings.warn(
            f"solve stopped ({found.status.value}) with a certified relative gap of "
            f"{found.certificate.relative_gap:.2e}, above tol={tol:g}. {found.status.advice}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


@torch.inference_mode(False)
def solve_quietly(
    problem: Problem,
    method: str | Method[Any],
    limits: Limits,
    start: Solution | Factors | nn.Module | None = None,
    callback: Callback | None = None,
    memory_limit: str | int | None = None,
) -> Solution:
    """`solve`, for those who look at the status themselves."""
    check_asked(method, limits)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback: a function is needed, got {callback!r}.")
    if not isinstance(problem, Problem):
        raise ValueError(f"problem: expected one that provenet.formulate made, got {type(problem).__name__}.")
    if problem.program.operator.shards.spread is not (ranks.current() is not None):
        where = "in" if problem.program.operator.shards.spread else "out"
        raise ValueError(f"problem: it was posed {where}side of provenet.ranks.joined(), and must be solved there.")
    begin = start.factors if isinstance(start, Solution) else start
    if isinstance(begin, nn.Module):
        begin = problem.factors(begin)
    if begin is not None:
        _check_start(problem.program, begin)

    limit = memory.as_bytes(memory_limit)
    if limit is not None and problem.program.operator.shards.spread:
        raise ValueError("memory_limit: it cannot go with several processes; start more of them, with fewer rows each.")
    if limit is not None and problem.memory is not None and limit != problem.memory.limit:
        problem = in_shards(problem, limit)

    def as_it_is(posed: Problem, at: Factors | None, left: Limits) -> Solution:
        at = posed.gates.network if at is None else at
        if limit is None or posed.memory is not None:
            return _solved(posed, method, left, at, callback, limit)
        try:
            return _solved(posed, method, left, at, callback, limit)
        except MemoryError:  # of any method that works on the samples as they are
            if method not in ("auto", "lbfgs"):
                raise
        return _solved(in_shards(posed, limit), method, left, at, callback, limit)

    if problem.growth is not None:
        return grown(as_it_is, within_gates(problem), begin, limits)
    found = as_it_is(within_gates(problem), begin, limits)
    if not problem.statement.beyond_gates or found.status is not Status.SOLVED:
        return found
    with deadline.within(limits.max_seconds):
        return widened(found, limits.tol).solution


def _solved(
    problem: Problem,
    method: str | Method[Any],
    limits: Limits,
    begin: Factors | None,
    callback: Callback | None,
    limit: int | None,
) -> Solution:
    """With the gates it has."""
    scale = problem.units.value
    tell = _heard(callback, scale)
    # a hair below tol, so that the recomputed certificate, with its own rounding, still holds
    tol, asked, seconds = limits.tol, method, limits.max_seconds
    if isinstance(method, Method):
        method = method.in_units(problem.units)
    posed = replace(problem, program=problem.program.remembering())  # what the run has met, its proof meets again
    with batches.within(limit if problem.memory is None else problem.memory.left), remembering():
        judging = Judging.of(posed, seconds)
        short = None if seconds is None else max(seconds - judging.kept_back, 0.0)
        with deadline.within(short), deadline.judging(judging.neurons):
            done, name = _run(posed.program, method, replace(limits, tol=0.9 * tol, max_seconds=short), begin, tell)
        with right_threads(product_size(problem.program)), deadline.within(_for_the_proof(seconds, done.seconds)):
            certificate = _proven(posed, done, tol, _known(problem, begin, done.status))
    status = _judged(done.status, certificate.relative_gap, tol)
    history = [_in_user_units(record, scale) for record in done.history]
    lower = max(certificate.dual, -math.inf if done.proven is None else done.proven.lower * scale)
    counted = done.steps, done.seconds, history, lower
    return Solution(problem, name, status, done.factors, certificate, *counted, asked, done.bias)


def _known(problem: Problem, begin: Factors | None, status: Status) -> Known:
    """Where a run began that may have had no time to get there, and the network that its gates came from; of ReLU
    whatever it has had."""
    if begin is None or (problem.activation != "relu" and status is not Status.TIME_LIMIT):
        return ()
    source = problem.gates.network
    return (begin,) if source is None or source is begin else (begin, source)


def _heard(callback: Callback | None, scale: float) -> Callback | None:
    """Records in the user's units; where several processes work together, what one of them answers is for all."""
    group = ranks.current()
    if callback is None and group is None:
        return None

    def tell(record: Record) -> bool:
        stop = callback is not None and bool(callback(_in_user_units(record, scale)))
        stop = stop or (group is not None and group.interrupted)
        return bool(anywhere(torch.tensor([stop]))[0])

    return tell


def _for_the_proof(max_seconds: float | None, used: float) -> float | None:
    """Seconds for the certificate: what the run has left, and some beyond; it says what it can prove by then."""
    if max_seconds is None:
        return None
    return max(max_seconds - used, 0.0) + deadline.grace(max_seconds)


def _proven(problem: Problem, done: Run, tol: float, known: Known) -> Certificate:
    """The certificate of the run's neurons, tidied and moved inside their cones; Ctrl-C has it at once, if looser."""
    try:
        return _certified(problem, done, tol, known, tidy=done.status is Status.SOLVED)
    except KeyboardInterrupt:
        done.status = Status.INTERRUPTED
        with deadline.within(0.0):
            return _certified(problem, done, tol, known, tidy=False)


def _certified(problem: Problem, done: Run, tol: float, known: Known, tidy: bool) -> Certificate:
    """By the network's own gradient, or by the run's dual point where that proves more: checked anew on the whole
    program, or, if time is limited and that took too long, as the judge has bounded it in the run."""
    program, inside = reduced(problem.program, (Inside(),))
    if tidy:
        done.factors = tidied(program, done.factors, 0.9 * tol)
    own = inside.factors(done.factors)
    certificate = _of_best(problem, program, done, tol, (own, *known))
    if certificate.relative_gap < -_HAIR and known:  # better than all networks with these gates: it is none of them
        certificate = _of_best(problem, program, done, tol, (own,))
    return certificate


def _of_best(problem: Problem, program: Program, done: Run, tol: float, candidates: Known) -> Certificate:
    """The certificate of the best of these neurons, which become the run's."""
    done.factors = _best(problem, candidates)
    certificate = _no_worse_than_none(problem, program, done, tol)
    if certificate.holds(tol) or done.proven is None or not done.proven.lower * problem.units.value > certificate.dual:
        return certificate
    certificate = certificate.sharpened_by(problem, judged(program, done.proven.theta))
    limited = deadline.left() < math.inf
    if limited and done.judged is not None and done.judged.bound is not BoundKind.PROBABILISTIC:
        certificate = certificate.sharpened_by(problem, done.judged)
    check_same_data(problem)
    return certificate


def _best(problem: Problem, candidates: tuple[Factors, ...]) -> Factors:
    """The neurons with the least objective by their network's own forward pass; the first of equals but for rounding.

    A ReLU network needs no cones to be judged.  A method may lose where it began: it moves neurons into their cones,
    and may have no time left to look there."""
    first, *others = candidates
    if not others:
        return first
    value = {id(factors): _objective(problem, factors) for factors in candidates}
    best = min(others, key=lambda factors: value[id(factors)])
    return best if value[id(best)] < value[id(first)] * (1 - _HAIR) else first


def _objective(problem: Problem, factors: Factors) -> float:
    program = problem.program
    if problem.activation != "relu" or factors.n_neurons == 0:  # those that are none say nothing: no pass over the data
        return float(program.objective_factors(factors))
    try:
        network, said = problem.spoken(factors)
        prediction, neurons, _ = relu_point(problem, network, said)
    except AnotherMap:
        return math.inf
    return float(program.loss.value(prediction) + program.beta * program.gauge.penalty(neurons))


def _no_worse_than_none(problem: Problem, program: Program, done: Run, tol: float) -> Certificate:
    """The certificate of the run's neurons; of no neurons where those are worse, or a map that rounding decides.

    Weights far beyond what float64 can relate to the samples may be good in a reduced program, and nowhere else."""
    none = float(program.loss.value(torch.zeros_like(program.loss.target))) * problem.units.value
    try:
        certificate = _of_network(problem, done, tol)
        if done.factors.n_neurons == 0 or not certificate.primal > none * (1 + _HAIR):
            return certificate
    except AnotherMap:
        if done.factors.n_neurons == 0:
            raise
    done.factors = program.nobody
    return _of_network(problem, done, tol)


def _of_network(problem: Problem, done: Run, tol: float) -> Certificate:
    """Of the network of the run's neurons, which are asked once what they say."""
    network, said = problem.spoken(done.factors)
    done.bias = getattr(network, "bias", None)
    done.bias = None if done.bias is None else done.bias.detach()
    return network_certificate(problem, network, tol, None, said)


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


def check_asked(method: Any, limits: Limits) -> None:
    """What is wrong with them whatever the problem is."""
    check_method(method)
    for name, value in (("tol", limits.tol), ("max_seconds", limits.max_seconds)):
        if value is None and name == "max_seconds":
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not value > 0:
            raise ValueError(f"{name}: it must be a positive number, got {value!r}.")
    if limits.max_steps is not None and not (isinstance(limits.max_steps, Integral) and limits.max_steps >= 0):
        raise ValueError(f"max_steps: it must be a whole number from zero on, or None, got {limits.max_steps!r}.")


def _run(
    program: Program, method: str | Method[Any], limits: Limits, start: Factors | None, tell: Callback | None
) -> tuple[Run, str]:
    """As it is, for a method that wants it so; else reduced.  The factors come back in the program's own terms."""
    try:
        stages = plan_unreduced(program, method)
        if stages:
            return run_stages(program, stages, limits, start, tell)
    except Refused:
        if method != "auto":
            raise
    small, back = reduced(program, STANDARD)
    begin = None if start is None else back.start(start)
    done, name = run_stages(small, plan(small, method, limits.tol), limits, begin, tell)
    return returned(done, program, back), name


def _judged(status: Status, gap: float, tol: float) -> Status:
    """The certificate has the last word on whether a run solved its problem."""
    if gap <= tol:
        return Status.SOLVED
    if status in (Status.SOLVED, Status.STALLED):
        return Status.SOLVED_INACCURATE if gap <= 100 * tol else Status.STALLED
    return status


def _in_user_units(record: Record, scale: float) -> Record:
    return replace(record, primal=record.primal * scale, dual=record.dual * scale)
