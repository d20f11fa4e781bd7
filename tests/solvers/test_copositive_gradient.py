"""Projected gradient on the copositive relaxation (CP eq. 19), against CVXPY."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.solvers.interior.copositive.gradient import ProjectedGradient, projected
from provenet.solvers.interior.copositive.walls import Walls
from provenet.solvers.loop import Refused


def problem(n: int, p: int, gates: object, share: float = 0.3, seed: int = 0) -> pn.Problem:
    draw = np.random.default_rng(seed)
    made = pn.formulate("mlp", draw.standard_normal((n, p)), draw.standard_normal((n, 2)), "relu", gates)  # type: ignore
    return made.with_beta(share * made.beta_max)


def relaxation(posed: pn.Problem) -> float:
    """½ tr(Yᵀ(I + Σ D_kX T_k XᵀD_k)⁻¹Y) + β²/2 Σ tr T_k over T_k ⪰ 0 with all rows' KTKᵀ ≥ 0."""
    X, Y = posed.X.numpy(), posed.loss.target.numpy()
    K, price, walls = np.eye(len(X)), 0, []
    for pattern in posed.patterns.numpy():
        T = cp.Variable((X.shape[1], X.shape[1]), PSD=True)
        gated, rows = X * pattern[:, None], X * np.where(pattern, 1.0, -1.0)[:, None]
        K, price = K + gated @ T @ gated.T, price + cp.trace(T)
        walls.append(rows @ T @ rows.T >= 0)
    fit = sum(cp.matrix_frac(Y[:, j], K) for j in range(Y.shape[1]))
    value = cp.Problem(cp.Minimize(0.5 * fit + 0.5 * posed.beta**2 * price), walls).solve(solver="CLARABEL")
    return float(value)


@pytest.mark.parametrize(("n", "p", "gates"), [(8, 2, "all"), (10, 3, 4), (10, 5, 3)])
def test_it_finds_the_relaxation(n: int, p: int, gates: object) -> None:
    posed = problem(n, p, gates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pn.solve(posed, ProjectedGradient(), tol=1e-4, max_steps=200)
    best = relaxation(posed)
    assert found.lower_bound <= best * (1 + 1e-6)
    assert found.lower_bound == pytest.approx(best, rel=1e-3)
    assert best * (1 - 1e-6) <= found.certificate.primal
    assert found.certificate.dual <= found.certificate.primal


def test_the_projection_is_the_nearest() -> None:
    walls = Walls.of(problem(9, 3, 2).program.gauge.region)  # type: ignore[attr-defined]
    draw = torch.Generator().manual_seed(0)
    S = torch.randn(2, 3, 3, generator=draw, dtype=torch.float64)
    S, push = S + S.mT, torch.zeros_like(walls.slack(S))
    for _ in range(20):
        T, push = projected(walls, S, push)
    for k in range(2):
        near = cp.Variable((3, 3), PSD=True)
        a, b = (side[k][walls.there[k]].numpy() for side in (walls.a, walls.b))
        inside = [cp.sum(cp.multiply(a @ near, b), axis=1) >= 0]
        cp.Problem(cp.Minimize(cp.sum_squares(near - S[k].numpy())), inside).solve(solver="CLARABEL")
        assert np.allclose(T[k].numpy(), near.value, atol=1e-4)


def test_other_losses_are_refused() -> None:
    posed = pn.formulate("mlp", np.eye(3), np.arange(3), "relu", 2, loss="softmax")
    with pytest.raises(Refused, match="squared"):
        pn.solve(posed, ProjectedGradient())
