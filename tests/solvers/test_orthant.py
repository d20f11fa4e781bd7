"""The copositive relaxation of whitened data (CP eq. 20): its value, its bounds, and a network beside it."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones.orthant import positive_part, proven_square, tightened
from provenet.problem import Problem
from provenet.solvers.cones.orthant import OrthantADMM
from provenet.solvers.cones.semi_nmf import Orthogonal


def whitened(n: int, c: int, share: float, seed: int = 0, spread: float = 0.0, weights: bool = False) -> Problem:
    """Orthogonal rows of lengths from exp(−spread) to exp(spread), Gaussian targets."""
    rng = np.random.default_rng(seed)
    X = np.linalg.qr(rng.standard_normal((n + 3, n)))[0].T * np.exp(rng.uniform(-spread, spread, (n, 1)))
    weight = rng.uniform(0.2, 2.0, n) if weights else None
    Y = rng.standard_normal((n, c))
    problem = pn.formulate("mlp", X, Y, "relu", "all", beta=1.0, fit_intercept=False, sample_weight=weight)
    return problem.with_beta(share * problem.beta_max)


def by_cvxpy(problem: Problem) -> float:
    """min ½‖diag(√ω ℓ)Z − √ω Y‖² + β/2 (tr T + tr H), the block matrix ⪰ 0 and T ≥ 0, in the user's units."""
    X, Y = problem.X.double().numpy(), problem.loss.target.numpy()
    root = np.sqrt(problem.loss.sample_weight.numpy())
    n, c = Y.shape
    block = cp.Variable((n + c, n + c), PSD=True)
    misfit = cp.multiply((root * np.linalg.norm(X, axis=1))[:, None], block[:n, n:]) - root[:, None] * Y
    value = 0.5 * cp.sum_squares(misfit) + 0.5 * problem.beta * cp.trace(block)
    return float(cp.Problem(cp.Minimize(value), [block[:n, :n] >= 0]).solve(solver="CLARABEL"))


@pytest.mark.parametrize(("n", "c", "share", "spread", "weights"), [(6, 4, 0.1, 0.0, False), (5, 9, 0.05, 1.0, True)])
def test_its_bound_is_the_relaxation(n: int, c: int, share: float, spread: float, weights: bool) -> None:
    problem = whitened(n, c, share, spread=spread, weights=weights)
    solution = pn.solve(problem, OrthantADMM(), tol=1e-9, max_steps=60)
    expected = by_cvxpy(problem)
    assert solution.lower_bound <= expected * (1 + 1e-7)
    assert solution.lower_bound == pytest.approx(expected, rel=1e-5)
    assert solution.certificate.dual == pytest.approx(expected, rel=1e-4)
    assert solution.certificate.primal >= solution.certificate.dual
    assert solution.certificate.scope == "all_arrangements"


def test_a_pull_is_bounded_as_by_the_semidefinite_program() -> None:
    rng = np.random.default_rng(1)
    C = rng.standard_normal((8, 4))
    C /= np.linalg.norm(C, 2)
    U = cp.Variable((8, 8), PSD=True)
    best = cp.Problem(cp.Maximize(cp.trace(C @ C.T @ U)), [cp.trace(U) == 1, U >= 0]).solve(solver="CLARABEL")
    found = tightened(torch.tensor(C), 0.0)
    assert found.square == pytest.approx(best, rel=1e-5)
    again = tightened(torch.tensor(C), found.square, [(found.S, found.U)])
    assert again.square == found.square  # what is remembered is enough


def test_any_multipliers_bound_any_pull() -> None:
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        C = torch.randn(7, 3, generator=draw, dtype=torch.float64)
        S = torch.rand(7, 7, generator=draw, dtype=torch.float64)
        w = torch.rand(500, 7, generator=draw, dtype=torch.float64) ** 4
        w /= torch.linalg.vector_norm(w, dim=1, keepdim=True)
        assert float((w @ C).square().sum(1).max()) <= proven_square(C, S + S.T)
    with pytest.raises(AssertionError):
        proven_square(C, -S)


def test_polars_hold_for_neurons_of_rows_that_are_only_nearly_orthogonal() -> None:
    problem = whitened(40, 6, 0.1)
    rng = np.random.default_rng(3)
    X = problem.X.double().numpy() + 2e-6 * rng.standard_normal(problem.X.shape)
    problem = pn.formulate("mlp", X, rng.standard_normal((40, 6)), "relu", "all", beta=1.0, fit_intercept=False)
    gauge = problem.program.gauge
    G = problem.program.operator.adjoint(torch.tensor(rng.standard_normal((40, 6))))
    bounds = gauge.polar(G)
    assert float(bounds.upper) < 0.99 * float(torch.linalg.matrix_norm(G[0], 2))
    u = gauge.region.rows.T @ torch.rand(40, 2000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    reached = torch.linalg.vector_norm(G[0].T @ u, dim=0) / torch.linalg.vector_norm(u, dim=0)
    assert float(reached.max()) <= float(bounds.upper)
    assert float(bounds.lower) <= float(bounds.upper)


def test_more_outputs_than_samples_at_the_size_of_small_images() -> None:
    """Refused before as too large, or left at a gap of 0.8."""
    solution = pn.solve(whitened(40, 200, 0.1), tol=5e-3, max_steps=20)
    assert solution.method == "copositive_admm"
    assert solution.certificate.relative_gap <= 5e-3
    assert solution.certificate.dual >= solution.lower_bound * (1 - 1e-3)


def test_sweeps_descend_to_a_stationary_network() -> None:
    rng = np.random.default_rng(0)
    fit = Orthogonal(torch.tensor(rng.uniform(0.5, 2, (8, 1))), torch.tensor(rng.standard_normal((8, 3))), 0.3)
    W = torch.tensor(np.maximum(rng.standard_normal((8, 10)), 0))
    V = fit.second_layer(W)
    values = [fit.objective(W, V)]
    for _ in range(20):
        W, V = fit.swept(W, V, 20)
        values.append(fit.objective(W, V))
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(values))
    slope = (fit.length * (fit.length * (W @ V) - fit.target)) @ V.T + fit.beta * W
    assert bool((W >= 0).all())
    assert float(slope.clamp_max(0).abs().max()) < 1e-3
    assert float((slope * W).abs().max()) < 1e-3


def test_the_positive_part() -> None:
    A = torch.randn(9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = A + A.T
    for shift in (-6.0, 0.0, 6.0):
        B = A + shift * torch.eye(9, dtype=A.dtype)
        part = positive_part(B)
        value = torch.linalg.eigvalsh(B).clamp_min(0)
        torch.testing.assert_close(torch.linalg.eigvalsh(part), value, atol=1e-12, rtol=1e-12)
        assert abs(float((part * (B - part)).sum())) < 1e-10
