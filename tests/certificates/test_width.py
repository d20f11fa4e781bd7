"""BM A.4 (Zhang 2022): m ≥ ¼(L/μ − 1)²·rank(Z*)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import width_condition


def posed(spread: float, n: int = 30, weight: np.ndarray | None = None) -> pn.Problem:
    """X with singular values between one and ``spread``."""
    draw = np.random.default_rng(0)
    left, _ = np.linalg.qr(draw.standard_normal((n, 4)))
    X = left * np.linspace(1, spread, 4)
    Y = X @ draw.standard_normal((4, 2)) @ draw.standard_normal((2, 3))
    return pn.formulate("mlp", X, Y, "linear", beta=1e-3, sample_weight=weight)


def test_the_numbers_are_those_of_the_paper() -> None:
    weight = np.linspace(0.5, 2.0, 30)
    problem = posed(1.3, weight=weight)
    found = width_condition(problem, pn.solve(problem, tol=1e-8).network())
    X = problem.X.numpy()
    eigenvalues = np.linalg.eigvalsh(X.T @ (weight[:, None] * X))  # each counts once an output
    ratio = eigenvalues[-1] / eigenvalues[0]
    assert found.smooth / found.strong == pytest.approx(ratio, rel=1e-9)
    assert found.rank == 2
    assert found.needed == pytest.approx(0.25 * (ratio - 1) ** 2 * 2, rel=1e-8)
    assert found.holds == (found.width >= found.needed)


def test_where_it_holds_descent_ends_at_the_optimum() -> None:
    problem = posed(1.2)
    best = pn.solve(problem, tol=1e-8)
    assert width_condition(problem, best.network()).holds
    network = pn.nn.MLP.from_weights(torch.randn(2, 4).double(), torch.randn(2, 3).double())
    optimiser = torch.optim.LBFGS(network.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = problem.loss.value(network(problem.X)) + problem.beta * network.penalty()
        value.backward()
        return value

    optimiser.step(closure)
    assert pn.certify(problem, network).primal == pytest.approx(best.certificate.primal, rel=1e-4)


def test_what_it_says_nothing_of() -> None:
    flat = posed(1.2, n=30)
    few = pn.formulate("mlp", flat.X[:3].numpy(), flat.loss.target[:3].numpy(), "linear", beta=1e-3)
    found = width_condition(few, pn.solve(few).network())
    assert found.strong == 0
    assert not found.holds
    gated = pn.formulate("mlp", flat.X.numpy(), flat.loss.target.numpy(), gates=3, beta=0.1)
    with pytest.raises(ValueError, match="one matrix Z"):
        width_condition(gated, pn.solve(gated).network())
    labels = pn.formulate("mlp", flat.X.numpy(), np.arange(30) % 3, "linear", loss="softmax", beta=0.1)
    with pytest.raises(ValueError, match="strong convexity"):
        width_condition(labels, pn.solve(labels).network())
