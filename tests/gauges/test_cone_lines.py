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


@pytest.mark.parametrize("penalty", [(1, 2), (math.inf, 2), (math.inf, math.inf), (2, math.inf)])
def test_of_one_output_all_norms_are_one(penalty: tuple[float, float]) -> None:
    one, same = (
        pn.solve(pn.formulate("mlp", X, Y[:, :1], "relu", 6, beta=0.5, penalty=norms), tol=1e-6)
        for norms in (penalty, (penalty[0], 1))
    )
    assert one.certificate.status == "certified"
    assert one.certificate.penalty == penalty
    assert one.certificate.primal == pytest.approx(same.certificate.primal, rel=2e-6)
    verdict = second_opinion(one.problem, one.network())
    assert verdict.primal == pytest.approx(one.certificate.primal, rel=1e-9)
    assert verdict.dual <= one.certificate.primal


@pytest.mark.parametrize("penalty", [(2, 1), (1, 1), (math.inf, 1)])
def test_convolutions_in_one_place_are_the_mlp(penalty: tuple[float, float]) -> None:
    """A kernel as large as the sample; then one that walks, with two cells, judged by the other code."""
    few, images = Y[:7], X[:7, None]
    alone = pn.solve(pn.formulate(pn.CNN(kernel=3), images, few, "relu", 3, beta=0.5, penalty=penalty), tol=1e-5)
    dense = pn.formulate("mlp", X[:7], few, "relu", alone.problem.gate_vectors, beta=0.5, penalty=penalty)
    assert alone.certificate.status == "certified"
    assert alone.certificate.primal == pytest.approx(pn.solve(dense, tol=1e-5).certificate.primal, rel=2e-5)
    walking = pn.formulate(pn.CNN(kernel=2, pool=2), images, few, "relu", 3, beta=0.5, penalty=penalty)
    found = pn.solve(walking, tol=1e-3)
    assert found.certificate.status == "certified"
    verdict = second_opinion(walking, found.network(), theta=found.certificate.theta)
    assert verdict.primal == pytest.approx(found.certificate.primal, rel=1e-9)
    assert verdict.dual <= found.certificate.primal


def test_a_start_whose_neurons_have_the_wrong_sizes() -> None:
    """At the optimum of a smaller β no neuron pulls as hard as β: the sizes there are have to shrink all the same."""
    problem = posed(1, gates=4)
    fitted = pn.solve(problem.with_beta(problem.beta / 4), tol=1e-3).network()
    again = pn.solve(problem, "line_frank_wolfe", tol=1e-4, start=fitted)
    assert again.certificate.status == "certified"
