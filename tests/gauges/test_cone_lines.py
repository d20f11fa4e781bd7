"""ReLU with the penalties (1, 1) and (∞, 1), against CVXPY (BM Thm B.1)."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gauges.cones.lines import pull_within
from provenet.proofs.independent import second_opinion

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((14, 3)), RNG.standard_normal((14, 2))
NORMS = [1.0, math.inf]


def posed(norm: float, gates: int = 12, loss: str = "squared", targets: object = Y) -> pn.Problem:
    made = pn.formulate("mlp", X, targets, "relu", gates, loss, penalty=(norm, 1))
    return made.with_beta(0.1 * made.beta_max)


def reference(problem: pn.Problem, norm: float) -> float:
    """A neuron of each sign for every gate and output, in its cone."""
    outputs, price, walls = 0, 0, []
    for pattern in problem.patterns.numpy():
        gated, rows = X * pattern[:, None], X * np.where(pattern, 1.0, -1.0)[:, None]
        for sign in (1, -1):
            W = cp.Variable((3, 2))
            outputs, price = outputs + sign * (gated @ W), price + cp.sum([cp.norm(W[:, j], norm) for j in range(2)])
            walls.append(rows @ W >= 0)
    fit = 0.5 * cp.sum_squares(outputs - Y) + problem.beta * price
    return float(cp.Problem(cp.Minimize(fit), walls).solve(solver="CLARABEL"))


@pytest.mark.parametrize("norm", NORMS)
def test_the_optimum_is_that_of_cvxpy(norm: float) -> None:
    problem = posed(norm)
    found = pn.solve(problem, tol=1e-5)
    best = reference(problem, norm)
    assert found.method == "line_frank_wolfe"
    assert found.certificate.primal == pytest.approx(best, rel=2e-5)
    assert found.certificate.dual <= best * (1 + 1e-7)
    assert found.certificate.relative_gap <= 1e-5
    assert found.certificate.penalty == (norm, 1)
    network = found.network()
    value = problem.loss.value(network(problem.X)) + problem.beta / 2 * (
        torch.linalg.vector_norm(network.first, norm, dim=1).square().sum()
        + torch.linalg.vector_norm(network.second, 1, dim=1).square().sum()
    )
    assert float(value.detach()) == pytest.approx(found.certificate.primal, rel=1e-9)
    verdict = second_opinion(problem, network, theta=found.certificate.theta)
    assert verdict.primal == pytest.approx(found.certificate.primal, rel=1e-9)
    assert verdict.dual <= best * (1 + 1e-7)


def test_labels() -> None:
    problem = posed(1.0, 6, "softmax", np.arange(14) % 3)
    found = pn.solve(problem, tol=1e-4)
    assert found.certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("norm", NORMS)
def test_a_pull_is_the_linear_program_s(norm: float) -> None:
    K, g = RNG.standard_normal((9, 4)), RNG.standard_normal(4)
    K = K * np.sign(K @ np.ones(4))[:, None] / np.linalg.norm(K, axis=1, keepdims=True)
    u = cp.Variable(4)
    best = float(cp.Problem(cp.Maximize(g @ u), [cp.norm(u, norm) <= 1, K @ u >= 0]).solve(solver="CLARABEL"))
    found = pull_within(g, K, norm)
    assert found.upper == pytest.approx(best, rel=1e-6)
    assert found.upper >= float(g @ found.u)
    assert np.linalg.norm(found.u, norm) <= 1 + 1e-12
    assert (K @ found.u >= -1e-7).all()


@pytest.mark.parametrize("penalty", [(1, 2), (2, math.inf), (math.inf, math.inf), (1, math.inf)])
def test_others_are_refused_in_a_sentence(penalty: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="no bound of how hard a neuron in its cone can pull"):
        pn.formulate("mlp", X, Y, "relu", 4, penalty=penalty)
