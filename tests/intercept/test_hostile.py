"""The bound of a free intercept under attack: no network, and no b, may have an objective below it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import judged
from provenet.proofs.independent import second_opinion

N = 24
RNG = np.random.default_rng(7)
X = RNG.standard_normal((N, 2))
HEAVY = np.r_[np.ones(1), np.zeros(N - 1)]


def labels(k: int) -> np.ndarray:
    return RNG.integers(0, k, N)


CASES: dict[str, dict[str, Any]] = {
    "separable": {"Y": (X[:, 0] > 0).astype(int), "loss": "softmax"},
    "separable, logistic": {"Y": (X[:, 0] > 0).astype(float), "loss": "logistic"},
    "one class heavy": {"Y": HEAVY, "loss": "logistic", "sample_weight": np.r_[1.0, np.full(N - 1, 999.0)]},
    "one class only": {"Y": np.zeros(N), "loss": "logistic"},
    "one class only, softmax": {"Y": np.eye(3)[np.ones(N, dtype=int)], "loss": "softmax"},
    "a class missing": {"Y": np.eye(4)[labels(3)], "loss": "softmax"},
    "mixtures": {"Y": RNG.dirichlet((0.1, 1.0, 1.0), N), "loss": "softmax"},
    "all targets equal": {"Y": np.full(N, 3.7), "loss": "squared"},
    "all targets equal, huber": {"Y": np.full(N, -1e5 / 3), "loss": "huber"},
    "large targets, little variance": {"Y": 1e8 + 1e-3 * X[:, 0] + 1e-4 * RNG.standard_normal(N), "loss": "squared"},
    "large targets, huber": {"Y": -1e8 + X[:, 0] + RNG.standard_normal(N), "loss": "huber"},
    "weights of all sizes": {
        "Y": RNG.standard_normal(N),
        "loss": "squared",
        "sample_weight": 10.0 ** RNG.uniform(-12, 12, N),
    },
    "weights of all sizes, softmax": {
        "Y": labels(3),
        "loss": "softmax",
        "sample_weight": 10.0 ** RNG.uniform(-12, 12, N),
    },
    "weights of all sizes, huber": {
        "Y": RNG.standard_normal(N),
        "loss": "huber",
        "sample_weight": 10.0 ** RNG.uniform(-12, 12, N),
    },
}


def posed(case: dict[str, Any], share: float) -> Any:
    problem = pn.formulate("mlp", X, **case, gates=3, beta=1.0, fit_intercept="free")
    return problem.with_beta(share * problem.beta_max) if problem.beta_max > 0 else problem


def rival(problem: Any, network: Any) -> float:
    """The objective of the same neurons with their own b or the best, in the user's units; never below a bound."""
    penalty = problem.beta * float(network.penalty())
    bare = neurons(problem, network)
    return min(float(problem.loss.value_at(bare, network.bias.detach())), float(problem.loss.value(bare))) + penalty


def neurons(problem: Any, network: Any) -> torch.Tensor:
    """What they say without b, which would round it."""
    network = copy.deepcopy(network)
    network.bias = None
    return network(problem.X).detach()


@pytest.mark.parametrize("share", [0.3, 1e-3, 1e-12])
@pytest.mark.parametrize("name", CASES)
def test_no_network_is_below_the_bound(name: str, share: float) -> None:
    problem = posed(CASES[name], share)
    seconds = 60.0 if share == 0.3 else 1.0  # those of small β need not end
    solution = pn.solve(problem, tol=1e-4, max_seconds=seconds)
    network, found = solution.network(), solution.certificate
    assert bool(torch.isfinite(network.bias).all())
    verdict = second_opinion(problem, network, theta=found.theta)
    assert verdict.primal == pytest.approx(found.primal, rel=1e-6, abs=1e-300)
    best = min(rival(problem, network), found.primal)
    tiny = 1e-12 * abs(best)
    for lower in (found.dual, solution.lower_bound, verdict.dual):
        assert lower <= best + tiny
    if share == 0.3 and "sizes" not in name:
        assert found.relative_gap <= 1e-4
        assert verdict.relative_gap <= 1.1e-4


@pytest.mark.parametrize("name", CASES)
def test_tampered_points_prove_nothing_false(name: str) -> None:
    """Random Θ and b, large and small, near the best ones and far from them, against the best network there is."""
    problem = posed(CASES[name], 0.3)
    solution = pn.solve(problem, tol=1e-6, max_seconds=1.0)
    network = solution.network()
    best = min(rival(problem, network), solution.certificate.primal)
    theta = problem.loss.gradient(neurons(problem, network))
    generator = torch.Generator().manual_seed(0)
    for size in (0.0, 1e-16, 1e-12, 1e-6, 1.0, 1e6):
        noise = torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        constant = torch.randn(theta.shape[-1:], generator=generator, dtype=torch.float64)
        for wrong in (theta + size * noise, theta + size * constant, theta * (1 + size), size * noise):
            lower = judged(problem.program, wrong / problem.units.dual).lower * problem.units.value
            assert lower <= best * (1 + 1e-12)
            other = type(network).from_weights(
                network.first, network.second, network.gates, bias=network.bias + size * constant, **network.settings
            )
            verdict = second_opinion(problem, other, theta=wrong)
            assert verdict.dual <= best * (1 + 1e-12)
            assert verdict.primal >= best * (1 - 1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "softmax"])
def test_one_sample(loss: str) -> None:
    """Its b fits it: the best objective is zero, or its limit."""
    Y = np.array([[1.0, 0.0]]) if loss == "softmax" else np.array([1.0])
    problem = pn.formulate("mlp", X[:1], Y, gates=2, loss=loss, beta=0.1, fit_intercept="free")
    found = pn.solve(problem).certificate
    assert (found.primal, found.dual) == (0, 0)
    assert found.status == "certified"


def test_huge_and_tiny_units() -> None:
    """Targets and weights far from one change units, not the answer."""
    y = X[:, 0] + 0.3 * RNG.standard_normal(N)
    plain = pn.formulate("mlp", X, y, gates=3, beta=0.5, fit_intercept="free")
    least = pn.solve(plain, tol=1e-6).certificate.primal
    for scale in (1e-90, 1e90):
        other = pn.formulate("mlp", X, scale * y, gates=3, beta=0.5 * scale, fit_intercept="free")
        found = pn.solve(other, tol=1e-6).certificate
        assert found.primal == pytest.approx(least * scale**2, rel=1e-5)
        assert found.relative_gap <= 1e-6
