from __future__ import annotations

import sys

import numpy as np
import pytest

import provenet as pn
from provenet.operators import MLPOperator
from provenet.problem import Program
from provenet.solvers.loop import Limits, run
from provenet.solvers.reference.cvx import CVX, matrix
from provenet.testing.bank import make_case


def test_without_cvxpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"provenet\[cvx\]"):
        pn.solve(make_case("squared").problem, "cvx")


@pytest.mark.filterwarnings("ignore:cvx. CLARABEL failed:RuntimeWarning")
@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_a_starved_clarabel_is_not_believed(loss: str) -> None:
    case = make_case(loss, ratio=0.01)
    solution = pn.solve(case.problem, CVX(options={"max_iter": 1}), tol=1e-6)
    assert solution.status is not pn.Status.SOLVED
    assert not solution.certificate.holds(1e-6)
    assert case.verify(solution.network()).relative_gap > 1e-6


def test_another_conic_solver() -> None:
    case = make_case("squared", outputs=1)
    scs = pn.solve(case.problem, CVX(solver="SCS", options={"eps": 1e-9}), tol=1e-5)
    assert scs.status is pn.Status.SOLVED
    assert scs.certificate.primal == pytest.approx(case.optimum, rel=1e-5)


def test_programs_too_large_are_refused() -> None:
    program = make_case("squared").problem.program
    operator = program.operator
    assert isinstance(operator, MLPOperator)
    assert matrix(operator).shape == (18 * 2, operator.n_gates * 3 * 2)
    huge = MLPOperator(operator.X.repeat(100, 1), operator.pattern.repeat(100, 100), 30)
    refusal = CVX().refuses(Program(huge, program.loss, program.gauge, program.beta))
    assert refusal is not None
    assert "entries" in refusal


def test_semidefinite_matrices_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clarabel would take gigabytes for these, and minutes between two looks at its clock."""
    draw = np.random.default_rng(0)
    problem = pn.formulate("mlp", draw.standard_normal((200, 120)), draw.standard_normal((200, 8)), gates=5, beta=1.0)
    ended = run(CVX(), problem.program, Limits(1e-6, max_seconds=5.0))
    assert ended.status is pn.Status.TIME_LIMIT  # it was not begun
    assert ended.seconds < 2
    monkeypatch.setattr("provenet.memory.available_bytes", lambda: 2**31)
    with pytest.raises(MemoryError, match="'cvx'"):
        pn.solve(problem, "cvx")
    one = pn.formulate("mlp", draw.standard_normal((200, 120)), draw.standard_normal((200, 1)), gates=5, beta=1.0)
    assert CVX().memory(one.program) < 2**24  # vectors need no such matrix
