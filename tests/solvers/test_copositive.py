"""The copositive program: exact in the plane, a valid bound beyond it."""

from __future__ import annotations

import time

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import Cones
from provenet.data.demo import spiral
from provenet.gauges import ConeNuclear
from provenet.problem import Problem
from provenet.solvers.interior.copositive.dense import Copositive
from provenet.solvers.interior.copositive.rounding import neurons
from provenet.solvers.interior.copositive.walls import Walls, are_tight


def formulated(X: np.ndarray, Y: np.ndarray, share: float, weight: np.ndarray | None = None) -> Problem:
    problem = pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=1.0, sample_weight=weight)
    return problem.with_beta(share * problem.beta_max)


def cones_of(problem: Problem) -> Cones:
    assert isinstance(problem.program.gauge, ConeNuclear)
    return problem.program.gauge.region


def relaxation_by_cvxpy(problem: Problem) -> float:
    """CP eq. 19, in the user's units, with every row of every cone."""
    X, Y = problem.X.double().numpy(), problem.loss.target.numpy()
    n, d = X.shape
    U = [cp.Variable((d, d), PSD=True) for _ in problem.patterns]
    kernel, constraints = np.eye(n), []
    for k, pattern in enumerate(problem.patterns.numpy()):
        D, K = pattern[:, None] * X, (2.0 * pattern[:, None] - 1) * X
        kernel = kernel + D @ U[k] @ D.T
        constraints.append(K @ U[k] @ K.T >= 0)
    kernel = (kernel + kernel.T) / 2
    fit = sum(cp.matrix_frac(Y[:, j], kernel) for j in range(Y.shape[1]))
    value = 0.5 * fit + 0.5 * problem.beta**2 * sum(cp.trace(u) for u in U)
    return float(cp.Problem(cp.Minimize(value), constraints).solve(solver="CLARABEL"))


def test_random_labels_of_a_network_in_the_plane() -> None:
    """As CP §5.1: 25 Gaussian points, five outputs, all 50 arrangements."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 2))
    Y = np.maximum(X @ rng.standard_normal((2, 100)), 0) @ rng.standard_normal((100, 5)) / 10
    problem = pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=1e-2)
    assert len(problem.patterns) == 50
    began = time.process_time()
    solution = pn.solve(problem, "copositive", tol=1e-8)
    assert time.process_time() - began < 5
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.certificate.scope == "all_arrangements"
    assert solution.lower_bound >= solution.certificate.dual
    cones, factors = cones_of(problem), solution.factors
    assert bool((cones.slack(factors.left, factors.gate) >= 0).all())


@pytest.mark.parametrize("beta", [1e-2, 1e-1, 1.0, 10.0, 100.0])
def test_the_spiral_at_every_beta(beta: float) -> None:
    X, y = spiral(60)
    problem = pn.formulate("mlp", X, np.eye(3)[y], activation="relu", gates="all", beta=beta)
    assert 114 <= len(problem.patterns) <= 120
    began = time.process_time()
    solution = pn.solve(problem, "copositive", tol=1e-7)
    assert time.process_time() - began < 20
    assert solution.certificate.relative_gap <= 1e-7
    if beta >= problem.beta_max:
        assert solution.factors.n_neurons == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_plane_with_every_kind_of_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(2, 30)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, 2))
    kind = seed % 5
    if kind == 1:  # repeated and opposite rows
        X = np.concatenate([X, 1.7 * X[: n // 2 + 1], -X[: n // 3]])
    elif kind == 2:
        X[: n // 2] *= 1e-3
    elif kind == 3:
        X[0] = 0
    elif kind == 4:  # sectors of 1e-4 radians
        X[:, 1] = 1 + 1e-3 * X[:, 1]
    weight = rng.uniform(0.1, 2, len(X)) if seed % 2 else None
    problem = formulated(X, rng.standard_normal((len(X), c)), 10 ** rng.uniform(-3, -0.3), weight)
    solution = pn.solve(problem, Copositive(), tol=1e-7)
    assert solution.certificate.relative_gap <= 2e-7
    assert solution.lower_bound <= solution.certificate.primal


def test_data_on_a_line() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 1)) @ rng.standard_normal((1, 4))
    problem = formulated(X, rng.standard_normal((12, 3)), 0.1)
    solution = pn.solve(problem, "copositive", tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_against_cvxpy_in_the_plane(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = formulated(rng.standard_normal((5, 2)), rng.standard_normal((5, 3)), 0.1)
    solution = pn.solve(problem, "copositive", tol=1e-7)
    assert solution.certificate.primal == pytest.approx(relaxation_by_cvxpy(problem), rel=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_beyond_the_plane_it_is_the_relaxation_and_bounds_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = formulated(rng.standard_normal((6, 3)), rng.standard_normal((6, 2)), 0.05)
    relaxed = relaxation_by_cvxpy(problem)
    solution = pn.solve(problem, Copositive(), tol=1e-7)
    optimum = pn.solve(problem, "frank_wolfe", tol=1e-5).certificate
    assert solution.lower_bound >= relaxed * (1 - 1e-6)
    assert solution.lower_bound <= optimum.primal
    assert relaxed <= optimum.primal * (1 + 1e-6)


def test_neurons_beyond_the_plane_are_finished_and_feasible() -> None:
    rng = np.random.default_rng(1)
    problem = formulated(rng.standard_normal((7, 3)), rng.standard_normal((7, 2)), 0.1)
    solution = pn.solve(problem, "copositive", tol=1e-5)
    assert solution.certificate.relative_gap <= 1e-5
    assert bool((cones_of(problem).slack(solution.factors.left, solution.factors.gate) >= 0).all())


def test_it_says_where_it_is_tight() -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((20, 2))
    assert are_tight(cones_of(formulated(rng.standard_normal((20, 2)), Y, 0.1)))
    assert are_tight(cones_of(formulated(rng.standard_normal((4, 3)), Y[:4], 0.1)))  # no cone has five facets
    assert not are_tight(cones_of(formulated(rng.standard_normal((8, 3)), Y[:8], 0.1)))


@pytest.mark.parametrize("seed", range(5))
def test_in_the_plane_neurons_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cones = cones_of(formulated(rng.standard_normal((9, 2)), rng.standard_normal((9, 1)), 0.5))
    walls = Walls.of(cones)
    u = torch.from_numpy(rng.uniform(0, 1, (len(cones.signs), 3, 2))) @ cones.faces.rays  # in the cones
    T = u.mT @ u
    found, gate = neurons(torch.linalg.cholesky(T), walls.normals, cones)
    again = torch.zeros_like(T).index_add_(0, gate, found[:, :, None] * found[:, None, :])
    torch.testing.assert_close(again, T, rtol=1e-9, atol=1e-12)
    assert bool((cones.slack(found, gate) >= 0).all())


@pytest.mark.parametrize("seed", range(5))
def test_with_three_facets_neurons_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cones = cones_of(formulated(rng.standard_normal((3, 3)), rng.standard_normal((3, 1)), 0.5))
    walls = Walls.of(cones)
    rays = torch.linalg.inv(cones.rows * cones.signs[:, :, None]).mT  # of each cone, in rows
    u = torch.from_numpy(rng.uniform(0, 1, (len(cones.signs), 5, 3))) @ rays
    T = u.mT @ u
    found, gate = neurons(torch.linalg.cholesky(T), walls.normals, cones)
    again = torch.zeros_like(T).index_add_(0, gate, found[:, :, None] * found[:, None, :])
    torch.testing.assert_close(again, T, rtol=1e-8, atol=1e-8 * float(T.abs().max()))
    assert bool((cones.slack(found, gate) >= 0).all())


@pytest.mark.parametrize("d", [2, 3, 4])
def test_analytic_centres(d: int) -> None:
    """T⁻¹ + Σ C/s = I where log det T + Σ log s − tr T is largest."""
    rng = np.random.default_rng(d)
    cones = cones_of(formulated(rng.standard_normal((8, d)), rng.standard_normal((8, 1)), 0.5))
    walls = Walls.of(cones)
    T = walls.centres(cones.inside)
    slope = torch.linalg.inv(T) + walls.combined(torch.where(walls.there, 1 / walls.slack(T), 0.0))
    assert bool((walls.slack(T) > 0).all())
    scale = torch.linalg.inv(T).abs().amax(dim=(1, 2))
    assert float(((slope - torch.eye(d)).abs().amax(dim=(1, 2)) / scale).max()) < 1e-6


def test_refusals_name_the_reason() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((10, 2)), rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="ReLU program of a block"):
        pn.solve(pn.formulate("mlp", X, Y), "copositive")
    labels = np.eye(2)[rng.integers(2, size=10)]
    logits = pn.formulate("mlp", X, labels, activation="relu", gates="all", loss="softmax", beta=0.1)
    with pytest.raises(ValueError, match="squared loss"):
        pn.solve(logits, Copositive())
    with pytest.raises(ValueError, match="unknowns"):
        pn.solve(formulated(X, Y, 0.1), Copositive(max_unknowns=10))
