"""The contract of a solver."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from provenet.certificates import duality_gap
from provenet.problem import Problem
from provenet.reductions import STANDARD, reduced
from provenet.solvers import Method, Status, solve
from provenet.testing.bank import Case
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors

ROUNDING = 1e-11  # of a relative gap at the bank's sizes
_STEPS = 12  # enough for ADMM to choose another ρ
REFERENCE = 1e-7  # what CVXPY's optimum is good for, relatively


def check_solver(method: Method[Any], case: Case, tol: float = 1e-6) -> str | None:
    """CVXPY's optimum with a certificate that holds and that `verify` confirms; zero from β_max on; states and start
    untouched.

    Returns the method's own reason where it refuses the problem, None where it passed.

    Parameters
    ----------
    method : Method
        Yours.
    case : Case
        A problem of the bank.
    tol : float, default 1e-6
        The relative gap that is asked for.
    """
    problem = case.problem
    reason = method.refuses(problem.program)
    if reason is not None:
        return reason
    solution = solve(problem, method, tol=tol)
    found = solution.certificate
    assert solution.status is Status.SOLVED, f"{method.name} on {case}: {solution}"
    assert found.holds(tol), f"{method.name} on {case}: solved, but {found}"
    assert found.relative_gap >= -ROUNDING, f"{method.name} on {case}: a negative gap {found.relative_gap:.3e}"
    slack = REFERENCE * abs(case.optimum)
    assert found.dual <= case.optimum + slack, f"{method.name} on {case}: dual above CVXPY's optimum {case.optimum}"
    assert case.optimum <= found.primal + slack, f"{method.name} on {case}: primal below CVXPY's optimum {case.optimum}"
    verdict = case.verify(solution.network(), found.theta)
    assert abs(verdict.gap - found.gap) <= 1e-9 * abs(found.primal), f"{method.name} on {case}: verify says {verdict}"

    check_states(method, problem)
    _check_zero(method, case)
    _check_start(method, case, tol)
    return None


def _check_zero(method: Method[Any], case: Case) -> None:
    solution = solve(case.problem.with_beta(case.problem.beta_max * (1 + 1e-9)), method, tol=1e-6)
    assert solution.status is Status.SOLVED, f"{method.name} on {case}: β ≥ β_max is not solved"
    assert float(solution.factors.penalty()) == 0, f"{method.name} on {case}: β ≥ β_max, but the network is not zero"


def _check_start(method: Method[Any], case: Case, tol: float) -> None:
    """From some other point, which is left as it was, the same optimum."""
    P, p, q = case.problem.program.operator.stack_shape
    generator = torch.Generator().manual_seed(1)
    start = Factors(normal(generator, 4, p), normal(generator, 4, q), torch.randint(P, (4,), generator=generator))
    kept = Factors(start.left.clone(), start.right.clone(), start.gate.clone())
    solution = solve(case.problem, method, tol=tol, start=start)
    assert solution.status is Status.SOLVED, f"{method.name} on {case}: not solved from another start: {solution}"
    for name in ("left", "right", "gate"):
        assert torch.equal(getattr(start, name), getattr(kept, name)), f"{method.name} on {case}: start.{name} changed"


def check_states(method: Method[Any], problem: Problem) -> None:
    """A step leaves the state that it is given as it was, and takes the same one again from there.

    Parameters
    ----------
    method : Method
        Yours.
    problem : Problem
        One that it takes.
    """
    program, _ = reduced(problem.program, STANDARD if method.reduces else ())
    program, _ = reduced(program, method.wants)
    method = method.in_units(problem.units)
    state = method.init(program, None)
    for _ in range(_STEPS):
        if method.finished(state):
            break
        seen, point = state, method.point(program, state)
        before = copy.deepcopy(_tensors(seen))
        seen = method.look(program, seen, duality_gap(program, point.prediction, point.penalty))
        _assert_same(method, state, before, "a look")
        before = copy.deepcopy(_tensors(seen))
        state = method.step(program, seen)
        _assert_same(method, seen, before, "a step")
        again = _tensors(method.step(program, seen))
        for name, value in _tensors(state).items():
            same = again[name].to(torch.float64), value.to(torch.float64)
            assert_close(*same, 1e-9, f"{method.name}: {name} after the same step again")


def _assert_same(method: Method[Any], state: Any, before: dict[str, Tensor], what: str) -> None:
    for name, value in _tensors(state).items():
        assert torch.equal(value, before[name]), f"{method.name}: {what} changed {name}"


def _tensors(part: Any, name: str = "state") -> dict[str, Tensor]:
    """Every tensor of a state, by where it is."""
    if isinstance(part, Tensor):
        return {name: part}
    if is_dataclass(part):
        part = {field.name: getattr(part, field.name) for field in fields(part)}
    elif isinstance(part, (tuple, list)):
        part = dict(enumerate(part))
    if not isinstance(part, dict):
        return {}
    found: dict[str, Tensor] = {}
    for key, value in part.items():
        found |= _tensors(value, f"{name}.{key}")
    return found
