"""Theorems of "Vector-output ReLU neural network problems are copositive programs", with their corrections."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones.relaxation import relaxed
from provenet.gates.arrangements import arrangements
from provenet.gauges import ConeNuclear
from provenet.problem import Problem, Program
from provenet.solvers.interior.copositive.dense import Copositive, CopositiveState, relaxed_bound


def formulated(X: np.ndarray, Y: np.ndarray, share: float) -> Problem:
    problem = pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=1.0)
    return problem.with_beta(share * problem.beta_max)


def relaxation(program: Program, steps: int = 40) -> tuple[float, float]:
    """(φ(T) of CP eq. 19 where the interior point ends, the best bound that its multipliers prove)."""
    method = Copositive()
    state: CopositiveState = method.init(program, None)
    best = -np.inf
    for _ in range(steps):
        if method.finished(state):
            break
        state = method.step(program, state)
        assert state.at is not None
        best = max(best, relaxed_bound(program, state.fit, state.walls, state.at).lower)
    assert state.at is not None
    best = max(best, relaxed_bound(program, state.fit, state.walls, state.at, thoroughly=True).lower)
    scaling = state.at.centre.scaling
    trace = float((scaling.G * scaling.lam.sqrt()[:, None, :]).square().sum())
    return 0.5 * float((state.fit.target * state.at.centre.W).sum()) + 0.5 * program.beta**2 * trace, best


# Theorem 1: strong duality, with the cone-nuclear norm


@pytest.mark.parametrize("seed", range(3))
def test_theorem_1_strong_duality(seed: int) -> None:
    """p* = d*: a network and a point of (11), dual feasible over all u, with the same value."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((8, 2)), rng.standard_normal((8, 3))
    problem = formulated(X, Y, 0.1)
    solution = pn.solve(problem, "copositive", tol=1e-9)
    certificate, network = solution.certificate, solution.network()
    Z = Y - network(problem.X.double()).detach().numpy()
    Z *= min(1.0, problem.beta / certificate.polar_max)
    angle = np.linspace(0, 2 * np.pi, 20_001)
    u = np.stack([np.cos(angle), np.sin(angle)])
    assert np.linalg.norm(Z.T @ np.maximum(X @ u, 0), axis=0).max() <= problem.beta * (1 + 1e-12)
    dual = -0.5 * np.square(Z - Y).sum() + 0.5 * np.square(Y).sum()
    assert dual == pytest.approx(certificate.primal, rel=1e-8)


def test_theorem_1_needs_the_cone_nuclear_norm() -> None:
    """For X = I every V is in the hull (13), so (12) as printed is the linear network's program: too low a value.

    V = (1, −1)ᵀgᵀ has nuclear norm √2‖g‖ and costs a ReLU network 2‖g‖.
    """
    g = np.array([[1.0, 2.0]])
    Y = np.array([[1.0], [-1.0]]) @ g
    beta = 0.5
    relu = pn.solve(pn.formulate("mlp", np.eye(2), Y, activation="relu", gates="all", beta=beta), tol=1e-9).certificate
    linear = pn.solve(pn.formulate("mlp", np.eye(2), Y, activation="linear", beta=beta), tol=1e-9).certificate
    size = float(np.linalg.norm(g))
    assert relu.relative_gap <= 1e-9
    assert linear.primal == pytest.approx(0.5 * beta**2 + beta * (2**0.5 * size - beta), rel=1e-8)
    assert relu.primal == pytest.approx(2 * (0.5 * beta**2 + beta * (size - beta)), rel=1e-8)
    assert relu.dual > 1.2 * linear.primal


# Theorem 2: the closed form of whitened data


@pytest.mark.parametrize("balanced", [True, False])
def test_theorem_2_is_the_optimum_over_every_arrangement(balanced: bool) -> None:
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((6, 5)))[0].T
    y = np.array([0, 1, 0, 1, 2]) if not balanced else np.array([0, 1, 2, 3, 4])
    Y = np.eye(y.max() + 1)[y]
    closed = pn.solve(pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=0.4), "closed_form", tol=1e-9)
    every = pn.formulate("mlp", X, Y, activation="relu", gates=arrangements(torch.from_numpy(X))[0], beta=0.4)
    assert len(every.patterns) == 2**5
    enumerated = pn.solve(every, "frank_wolfe", tol=1e-6).certificate
    assert closed.certificate.relative_gap <= 1e-9
    assert closed.certificate.primal == pytest.approx(enumerated.primal, rel=2e-6)
    assert enumerated.dual <= closed.certificate.primal * (1 + 1e-9)
    U, sigma, Vh = np.linalg.svd(X.T @ Y, full_matrices=False)
    V = (U * np.maximum(sigma - 0.4, 0)) @ Vh  # (16), whatever basis the SVD returns
    value = 0.5 * np.square(X @ V - Y).sum() + 0.4 * np.maximum(sigma - 0.4, 0).sum()
    assert closed.certificate.primal == pytest.approx(value, rel=1e-9)
    network = closed.network()
    np.testing.assert_allclose((network.first.T @ network.second).detach().numpy(), V, atol=1e-8)


def test_theorem_2_is_checked_by_singular_subspace() -> None:
    """Slip 6: balanced classes have one singular value, so that any rotation of the indicators is a basis an SVD may
    return.  Vector by vector no signs make it non-negative; the subspace has a basis that is."""
    rng = np.random.default_rng(0)
    X, Y = np.linalg.qr(rng.standard_normal((15, 12)))[0].T, np.eye(3)[np.arange(12) % 3]
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    left = X.T @ Y @ turn / 2  # σ = √4 for all
    np.testing.assert_allclose(left.T @ left, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(left * 2 @ turn.T, X.T @ Y, atol=1e-12)  # an SVD
    hidden = X @ left
    naive = (hidden >= -1e-9).all(0) | (hidden <= 1e-9).all(0)
    assert not naive.all()
    for targets in (Y, Y @ turn):
        problem = pn.formulate("mlp", X, targets, activation="relu", gates="all", beta=0.5)
        closed = pn.solve(problem, "closed_form", tol=1e-9)
        assert closed.certificate.relative_gap <= 1e-9
        assert closed.certificate.primal == pytest.approx(3 * (0.5 * 0.5**2 + 0.5 * (2 - 0.5)), rel=1e-9)


def test_theorem_2_needs_its_condition() -> None:
    """With a singular vector of both signs (16) is no ReLU network, and its value is below p*."""
    rng = np.random.default_rng(1)
    X, Y = np.linalg.qr(rng.standard_normal((6, 4)))[0].T, rng.standard_normal((4, 2))
    problem = pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=0.1)
    with pytest.raises(ValueError, match="no non-negative basis"):
        pn.solve(problem, "closed_form")
    sigma = np.linalg.svd(Y, compute_uv=False)
    value = np.where(sigma > 0.1, 0.5 * 0.1**2 + 0.1 * (sigma - 0.1), 0.5 * sigma**2).sum()
    assert pn.solve(problem, tol=1e-4).lower_bound > 1.05 * value


# Theorem 3: the copositive program


@pytest.mark.parametrize("seed", range(2))
def test_theorem_3_with_its_regulariser(seed: int) -> None:
    """(17) with β²/2 Σ tr U_i is p*.

    In the plane U_i = RᵀBR with the rays in the rows of R, and B, 2 × 2, completely positive: PSD and not negative.
    """
    rng = np.random.default_rng(seed)
    problem = formulated(rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), 0.2)
    p_star = pn.solve(problem, "frank_wolfe", tol=1e-7).certificate.primal
    X, Y, beta = problem.X.double().numpy(), problem.loss.target.numpy(), problem.beta
    gauge = problem.program.gauge
    assert isinstance(gauge, ConeNuclear)
    B = [cp.Variable((2, 2), PSD=True) for _ in problem.patterns]
    rays = gauge.region.faces.rays.numpy()
    hidden = [pattern[:, None] * X @ ray.T for pattern, ray in zip(problem.patterns.numpy(), rays, strict=True)]
    kernel = np.eye(4) + sum(H @ b @ H.T for H, b in zip(hidden, B, strict=True))
    trace = sum(cp.trace(ray.T @ b @ ray) for ray, b in zip(rays, B, strict=True))
    fit = 0.5 * sum(cp.matrix_frac(Y[:, j], (kernel + kernel.T) / 2) for j in range(2))
    completely_positive = [b >= 0 for b in B]
    value = cp.Problem(cp.Minimize(fit + 0.5 * beta**2 * trace), completely_positive).solve(solver="CLARABEL")
    assert value == pytest.approx(p_star, rel=1e-5)


# §4.2: tight in the plane, a bound beyond it


@pytest.mark.parametrize("seed", range(4))
def test_the_relaxation_is_tight_in_the_plane(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = formulated(rng.standard_normal((12, 2)), rng.standard_normal((12, 2)), 0.05)
    value, bound = relaxation(problem.program)
    p_star = pn.solve(problem, "frank_wolfe", tol=1e-6).certificate
    assert bound <= value * (1 + 1e-9)
    assert value * problem.units.value == pytest.approx(p_star.primal, rel=2e-6)
    assert bound == pytest.approx(value, rel=1e-7)


def test_the_relaxation_is_not_tight_for_five_facets_in_space() -> None:
    """CP §4.2 has it tight for d ≤ 4.  Five facets are enough for a bound that is valid, and not p*."""
    angle = 2 * np.pi * np.arange(5) / 5
    X = np.column_stack([np.cos(angle), np.sin(angle), np.full(5, 0.9)])
    pairs = sum(np.outer(X[i], X[(i + 2) % 5]) for i in range(5))
    R = 2 * np.eye(3) - 0.5 * (pairs + pairs.T)
    shift = 3.0  # R + shift·I is positive definite, and ⟨I, U⟩ = 1
    G = np.linalg.cholesky(R + shift * np.eye(3))
    Y = X @ np.linalg.solve(X.T @ X, G)  # XᵀY = G: the slope at zero
    open_gate = np.array([[0.0, 0.0, 1.0]])
    problem = pn.formulate("mlp", X, Y, activation="relu", gates=open_gate, beta=1.0)
    assert bool(problem.patterns.all())
    assert problem.beta_max**2 - shift == pytest.approx(1.3086, abs=1e-4)
    gauge = problem.program.gauge
    assert isinstance(gauge, ConeNuclear)
    slope = problem.program.operator.adjoint(problem.program.loss.target)
    unit = problem.beta_max / problem.program.beta_max
    some = np.random.default_rng(0).standard_normal((100_000, 3))
    inside = some[(some @ X.T >= 0).all(1)]
    inside /= np.linalg.norm(inside, axis=1, keepdims=True)
    peak = torch.tensor(inside[[np.argmax(((inside @ R) * inside).sum(1))]])  # what holds it back tells which pairs
    bound = float(relaxed(gauge.region, slope, peak, torch.zeros(1, dtype=slope.dtype))) * unit
    assert bound**2 - shift == pytest.approx(2.0, abs=1e-3)  # the relaxation's own maximum
    problem = problem.with_beta(0.95 * problem.beta_max)
    program = problem.program
    value, bound = relaxation(program)
    optimum = pn.solve(problem, "frank_wolfe", tol=1e-7).certificate
    assert bound <= value * (1 + 1e-9)
    assert bound == pytest.approx(value, rel=1e-7)
    assert value * problem.units.value < 0.99 * optimum.dual  # below p*, by more than any tolerance
    solution = pn.solve(problem, "copositive", tol=1e-6)  # its certificate knows cones in space exactly
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.lower_bound <= solution.certificate.primal


@pytest.mark.parametrize("seed", range(3))
def test_the_multipliers_bound_cone_pca_whatever_their_accuracy(seed: int) -> None:
    """A bound at every step of the interior point, from the first on, is one of p*."""
    rng = np.random.default_rng(seed)
    problem = formulated(rng.standard_normal((7, 3)), rng.standard_normal((7, 2)), 0.1)
    p_star = pn.solve(problem, "frank_wolfe", tol=1e-5).certificate.primal / problem.units.value
    method = Copositive()
    state = method.init(problem.program, None)
    for _ in range(8):
        state = method.step(problem.program, state)
        assert state.at is not None
        state.at.push.mul_(torch.from_numpy(rng.uniform(0, 3, state.at.push.shape)))  # any λ ≥ 0 will do
        assert relaxed_bound(problem.program, state.fit, state.walls, state.at).lower <= p_star
