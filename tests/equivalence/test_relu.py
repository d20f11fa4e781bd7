"""100 small ReLU programs: every method reaches one value, that of CVXPY on the program as the papers write it.

What CVXPY is given is written here from the samples, their patterns and β; nothing of the package's maths is used.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import provenet as pn
from provenet.solvers.plan import plan
from provenet.verify import Data, Statement, Weights, verify

Array = np.ndarray

SHAPES = list(product((1, 2, 3), (1, 2, 3), ("all", 6)))  # features, outputs, gates
RATIOS = (0.5, 0.2, 0.05, 0.01)  # of β to β_max
PROBLEMS, TOGETHER = 100, 10  # `make trust` tries thousands
TOLERANCE = {"cutting_plane": 1e-4, "admm": 1e-4, "cvx": 1e-5}  # of the slow ones, and Clarabel's; 1e-6 of the others
EVERYONE = ("auto", "frank_wolfe", "bm", "working_set", "cutting_plane", "copositive", "cvx", "admm")
ROUNDING = 1e-9  # of the objective
ACCURATE = 1e-6  # of the objective: how well CVXPY solves; it was 4e-7 above a network once


@dataclass(frozen=True)
class Case:
    X: Array
    Y: Array
    gates: Any
    problem: pn.Problem


def draw(number: int) -> Case:
    """Shapes, gates and β in turn, so that 100 problems see each of them with each other; all else by chance."""
    d, c, gates = SHAPES[number % len(SHAPES)]
    random = np.random.default_rng(number)
    n = int(random.integers(3, 13))
    X, Y = random.standard_normal((n, d)), random.standard_normal((n, c))
    problem = pn.formulate("mlp", X, Y, "relu", gates=gates, beta=1.0, seed=number)
    ratio = RATIOS[number // len(SHAPES) % len(RATIOS)]
    return Case(X, Y, gates, problem.with_beta(ratio * problem.beta_max))


def reference(case: Case) -> float | None:
    """p* by CVXPY, where the program can be written for it."""
    if case.Y.shape[1] == 1:
        return _solved(_one_output(case))
    if case.X.shape[1] <= 2 or len(case.X) <= 4:  # where at most four rows of each cone are not redundant (slip 12)
        return _solved(_copositive(case))
    return None


def _one_output(case: Case) -> cp.Problem:
    """min ½‖Σ_k D_k X(a_k − b_k) − y‖² + β Σ_k ‖a_k‖ + ‖b_k‖, K_k a_k ≥ 0, K_k b_k ≥ 0 (CP eq. 12 with one output)."""
    prediction: Any = 0
    penalty: Any = 0
    constraints = []
    for pattern in case.problem.patterns.numpy():
        for sign in (1, -1):
            a = cp.Variable(case.X.shape[1])
            prediction = prediction + sign * (pattern[:, None] * case.X) @ a
            penalty = penalty + cp.norm2(a)
            constraints.append((2 * pattern[:, None] - 1.0) * case.X @ a >= 0)
    value = 0.5 * cp.sum_squares(prediction - case.Y[:, 0]) + case.problem.beta * penalty
    return cp.Problem(cp.Minimize(value), constraints)


def _copositive(case: Case) -> cp.Problem:
    """min ½ tr Yᵀ(I + Σ_k D_kX U_k XᵀD_k/β)⁻¹Y + β/2 Σ_k tr U_k, U_k ⪰ 0, K_k U_k K_kᵀ ≥ 0 (CP eq. 17, 19), with U_k
    in units in which the regulariser is β, not β²: U_k = Σ uuᵀ over the neurons."""
    n, d = case.X.shape
    kernel: Any = np.eye(n)
    trace: Any = 0
    constraints = []
    for pattern in case.problem.patterns.numpy():
        U = cp.Variable((d, d), PSD=True)
        opened, cone = pattern[:, None] * case.X, (2 * pattern[:, None] - 1.0) * case.X
        kernel = kernel + opened @ U @ opened.T / case.problem.beta
        trace = trace + cp.trace(U)
        constraints.append(cone @ U @ cone.T >= 0)
    fit = cp.sum([cp.matrix_frac(y, kernel) for y in case.Y.T])
    return cp.Problem(cp.Minimize(0.5 * fit + case.problem.beta / 2 * trace), constraints)


def _solved(problem: cp.Problem) -> float:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # more is asked than is needed
        return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10))


def able(problem: pn.Problem, method: str) -> bool:
    """Whether a method takes a problem, by its own word."""
    try:
        plan(problem.program, method, 1e-6)
    except ValueError:
        return False
    return True


def chosen(number: int, case: Case) -> list[str]:
    """Two methods and two more for every problem, all that can for each eleventh."""
    more = ("working_set", "admm") if case.Y.shape[1] == 1 else ("copositive", "cutting_plane")
    wanted = EVERYONE if number % 11 == 0 else ("frank_wolfe", "bm", *more)
    return [method for method in wanted if able(case.problem, method)]


@cache
def runs(first: int) -> list[tuple[Case, float | None, dict[str, pn.Solution]]]:
    """Ten problems, their references, and what every method made of them."""
    found = []
    for number in range(first, first + TOGETHER):
        case = draw(number)
        solved = {
            method: pn.solve(case.problem, method, tol=TOLERANCE.get(method, 1e-6)) for method in chosen(number, case)
        }
        found.append((case, reference(case), solved))
    return found


each_ten = pytest.mark.parametrize("first", range(0, PROBLEMS, TOGETHER))


@each_ten
def test_every_method_reaches_the_value_of_cvxpy(first: int) -> None:
    for case, truth, solved in runs(first):
        assert len(solved) >= 4
        for method, solution in solved.items():
            certificate = solution.certificate
            assert certificate.relative_gap <= TOLERANCE.get(method, 1e-6), method
            assert certificate.scope == ("all_arrangements" if case.gates == "all" else "fixed_gates")
            if truth is not None:
                slack = ACCURATE * truth
                assert certificate.dual - slack <= truth <= certificate.primal + slack, method
                assert certificate.primal - truth <= certificate.gap + slack, method


@each_ten
def test_no_lower_bound_is_above_any_network(first: int) -> None:
    for _, _, solved in runs(first):
        least = min(solution.certificate.primal for solution in solved.values())
        for method, solution in solved.items():
            assert solution.certificate.dual <= solution.lower_bound <= least * (1 + ROUNDING), method
            assert solution.certificate.primal - least <= solution.certificate.gap + ROUNDING * least, method


@each_ten
def test_every_neuron_is_in_its_cone_whatever_the_order_of_summation(first: int) -> None:
    for case, _, solved in runs(first):
        for method, solution in solved.items():
            network: Any = solution.network()
            weights = network.first.detach().numpy()
            sign = 2.0 * case.problem.patterns.numpy()[solution.factors.gate.numpy()] - 1  # (N, n)
            terms = case.X[None] * weights[:, None]  # (N, n, d)
            forwards, backwards = (sum(np.moveaxis(terms[..., ::way], -1, 0)) for way in (1, -1))
            for product_ in (forwards, backwards, weights @ case.X.T):
                assert (sign * product_ >= 0).all(), method


@each_ten
def test_the_independent_checker_agrees(first: int) -> None:
    for case, _, solved in runs(first):
        everything = case.gates == "all" and case.X.shape[1] == 2
        scope: dict[str, Any] = {"all_arrangements": True}
        if not everything:
            scope = {"gate_vectors": case.problem.gate_vectors.numpy()}  # type: ignore[union-attr]
        for method, solution in list(solved.items())[first // TOGETHER % 3 :: 3]:  # one of three
            network: Any = solution.network()
            weights = Weights(network.first.detach().numpy(), network.second.detach().numpy())
            statement = Statement("squared", case.problem.beta, relu=True, **scope)
            verdict = verify(Data(case.X, case.Y), weights, statement)
            assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-12), method
            assert verdict.relative_gap <= 3 * TOLERANCE.get(method, 1e-6), method


@pytest.mark.parametrize(("loss", "c"), [("logistic", 1), ("softmax", 2), ("softmax", 3), ("huber", 1), ("huber", 2)])
def test_other_losses(loss: str, c: int) -> None:
    random = np.random.default_rng(c)
    X = random.standard_normal((10, 2))
    classes = random.integers(0, max(c, 2), 10)
    Y = {"logistic": 1.0 * classes[:, None], "softmax": np.eye(max(c, 2))[classes]}.get(loss)
    Y = random.standard_normal((10, c)) if Y is None else Y
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss=loss, beta=1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    methods = [method for method in ("auto", "frank_wolfe", "bm", "working_set", "cvx") if able(problem, method)]
    assert len(methods) >= 3
    found = {method: pn.solve(problem, method, tol=TOLERANCE.get(method, 1e-6)).certificate for method in methods}
    for method, certificate in found.items():
        assert certificate.relative_gap <= TOLERANCE.get(method, 1e-6), method
        assert certificate.dual <= min(other.primal for other in found.values()) * (1 + ROUNDING), method
