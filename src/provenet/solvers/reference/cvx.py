"""The program handed to CVXPY: slow and general, the reference of the tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from provenet import deadline
from provenet.gauges import ConeGauge, Gauge, LineNorm, NuclearNorm, ProxGauge
from provenet.losses import Loss
from provenet.operators import Operator
from provenet.problem import Program
from provenet.solvers.loop import Method, Point
from provenet.solvers.reference.cones import pose, refuses_cones
from provenet.variable import Factors, Stack

_MAX_ENTRIES = 5e7  # of the operator's matrix
_BYTES = 60  # that Clarabel takes, measured, for each entry of the square of a semidefinite matrix's unknowns
_TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


@dataclass(frozen=True)
class CVXState:
    point: Point
    done: bool


@dataclass(frozen=True)
class CVX(Method[CVXState]):
    """One step: the whole solve.  ``solver``: any conic solver CVXPY knows; ``options`` are passed on to it.

    Clarabel is asked for more than its default accuracy: the dual point comes from the primal one's gradient, so
    half of the digits would be lost.
    """

    solver: str = "CLARABEL"
    options: dict[str, Any] = field(default_factory=dict)

    name = "cvx"

    def declines(self, program: Program[Any]) -> str | None:
        if program.loss.name not in _LOSSES:
            return f"loss {program.loss.name!r} is not written for CVXPY."
        if not isinstance(program.gauge, (NuclearNorm, ConeGauge, LineNorm)):
            return f"gauge {type(program.gauge).__name__} is not written for CVXPY."
        entries = float(np.prod(program.operator.output_shape)) * float(np.prod(program.operator.stack_shape))
        if entries > _MAX_ENTRIES:
            return (
                f"its matrix has {entries:.2g} entries, more than the {_MAX_ENTRIES:.0e} this reference solver takes."
            )
        # last, as it may have to look for facets
        return refuses_cones(program) if isinstance(program.gauge, ConeGauge) else None

    def memory(self, program: Program[Any]) -> int:
        return super().memory(program) + _BYTES * program.operator.n_gates * _unknowns(program) ** 2

    def init(self, program: Program[Any], start: Factors | None) -> CVXState:
        _cvxpy()  # say that it is missing before anything else
        op = program.operator
        given = start or program.nobody
        if isinstance(program.gauge, ConeGauge):
            return CVXState(_of_neurons(program, given), done=False)
        return CVXState(_of_stack(program, given.stack(op.n_gates)), done=False)

    def step(self, program: Program[Any], state: CVXState) -> CVXState:
        cp = _cvxpy()
        deadline.need(program.operator.n_gates * _unknowns(program) ** 3 / 3)  # between factorisations it looks itself
        cones = isinstance(program.gauge, ConeGauge)
        blocks, norms, constraints, point = (_posed_cones if cones else _posed)(cp, program)
        fit = _fit(cp, program, blocks)
        problem = cp.Problem(cp.Minimize(fit + program.beta * cp.sum(norms)), constraints)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Solution may be inaccurate")  # the certificate says how inaccurate
                problem.solve(solver=self.solver, **(_settings(self.solver) | self.options))
        except cp.error.SolverError as error:
            warnings.warn(f"cvx: {self.solver} failed, the start is returned: {error}", RuntimeWarning, stacklevel=2)
        if any(block.value is None for block in blocks):
            return replace(state, done=True)
        return CVXState(point(), done=True)

    def point(self, program: Program[Any], state: CVXState) -> Point:
        return state.point

    def finished(self, state: CVXState) -> bool:
        return state.done


def _unknowns(program: Program[Any]) -> int:
    """Of the semidefinite matrix (p + q, p + q) of each gate; none where norms are of vectors."""
    _, p, q = program.operator.stack_shape
    vectors = min(p, q) == 1 or isinstance(program.gauge, LineNorm)
    return 0 if vectors else (p + q) * (p + q + 1) // 2


def _settings(solver: str) -> dict[str, Any]:
    """Clarabel is told how accurate to be, and how long it has."""
    if solver != "CLARABEL":
        return {}
    return _TIGHT if deadline.left() == math.inf else _TIGHT | {"time_limit": deadline.left()}


Posed = tuple[list[Any], list[Any], list[Any], Callable[[], Point]]
"""Blocks Z_k (p, q), their gauges, the constraints, and how to read a solution."""


def _posed(cp: Any, program: Program[Any]) -> Posed:
    P, p, q = program.operator.stack_shape
    blocks = [cp.Variable((p, q)) for _ in range(P)]
    norms = [_gauge(cp, program.gauge, block) for block in blocks]
    return blocks, norms, [], lambda: _of_stack(program, torch.from_numpy(np.stack([b.value for b in blocks])))


def _gauge(cp: Any, gauge: Gauge, block: Any) -> Any:
    if isinstance(gauge, LineNorm):
        rows = gauge.first == 1
        return cp.sum(cp.norm(block, gauge.second if rows else gauge.first, axis=1 if rows else 0))
    return cp.normNuc(block) if min(block.shape) > 1 else cp.norm(block, "fro")


def _posed_cones(cp: Any, program: Program[Any]) -> Posed:
    blocks, norms, constraints, neurons = pose(cp, program)
    return blocks, norms, constraints, lambda: _of_neurons(program, neurons())


def _of_stack(program: Program[ProxGauge], stack: Stack) -> Point:
    return Point(
        program.operator.forward(stack),
        float(program.gauge.value(stack)),
        lambda: program.gauge.factorise(stack),
    )


def _of_neurons(program: Program[Any], factors: Factors) -> Point:
    return Point.of(factors, program.operator.forward_factors(factors))


def _fit(cp: Any, program: Program[Any], blocks: list[Any]) -> Any:
    """L(A(Z)) as a CVXPY expression of the blocks."""
    op = program.operator
    weights = cp.hstack([cp.vec(block, order="C") for block in blocks])
    rows = int(np.prod(op.output_shape[:-1]))
    prediction = cp.reshape(matrix(op) @ weights, (rows, op.output_shape[-1]), order="C")
    constant, paid = program.loss.constant, 0.0
    if constant is not None:  # the intercept
        b = cp.Variable((1, op.output_shape[-1]))
        prediction = prediction + constant.numpy()[:, None] @ b
        paid = 0.5 * program.loss.cost * cp.sum_squares(b)
    return _LOSSES[program.loss.name](cp, prediction, program.loss.plain) + paid


def matrix(operator: Operator) -> scipy.sparse.csr_matrix:
    """A as a matrix, outputs × P·p·q, both sides read row by row."""
    unit = operator.new_stack()
    entries = unit.view(-1)
    columns = []
    for i in range(entries.numel()):
        if deadline.over():
            raise deadline.TooLong
        entries[i] = 1
        columns.append(scipy.sparse.csc_matrix(operator.forward(unit).reshape(-1, 1).numpy()))
        entries[i] = 0
    return scipy.sparse.hstack(columns, format="csr")


def _rows(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """Targets (rows, c) and the weight of each row (rows, 1)."""
    target: Tensor = loss.target
    weight = loss.weight.expand(*target.shape[:-1], 1)
    return target.reshape(-1, target.shape[-1]).numpy(), weight.reshape(-1, 1).numpy()


def _squared(cp: Any, prediction: Any, loss: Loss) -> Any:
    target, weight = _rows(loss)
    return 0.5 * cp.sum_squares(cp.multiply(np.sqrt(weight) + 0 * target, prediction - target))


def _softmax(cp: Any, prediction: Any, loss: Loss) -> Any:
    target, weight = _rows(loss)
    log_sum = cp.log_sum_exp(prediction, axis=1)
    return cp.sum(cp.multiply(weight[:, 0], log_sum)) - cp.sum(cp.multiply(weight * target, prediction))


def _logistic(cp: Any, prediction: Any, loss: Loss) -> Any:
    target, weight = _rows(loss)
    return cp.sum(cp.multiply(weight + 0 * target, cp.logistic(prediction)) - cp.multiply(weight * target, prediction))


def _huber(cp: Any, prediction: Any, loss: Loss) -> Any:
    target, weight = _rows(loss)
    return 0.5 * cp.sum(cp.multiply(weight + 0 * target, cp.huber(prediction - target, loss.delta)))  # type: ignore[attr-defined]


_LOSSES: dict[str, Callable[[Any, Any, Loss], Any]] = {
    "squared": _squared,
    "softmax": _softmax,
    "logistic": _logistic,
    "huber": _huber,
}


def _cvxpy() -> Any:
    try:
        import cvxpy
    except ImportError:
        raise ImportError("method 'cvx' needs CVXPY and a solver: pip install 'provenet[cvx]'.") from None
    return cvxpy
