"""The problems of the benchmark, each from a seed."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

import provenet as pn


def spiral(beta: float, n: int = 150, gates: int = 100, seed: int = 0) -> pn.Problem:
    """Three noisy arms of four radians in the plane, one-hot targets, squared loss (after BM section 4.1)."""
    rng = np.random.default_rng(seed)
    arm = n // 3
    label = np.repeat(np.arange(3), arm)
    radius = np.tile(np.linspace(0, 1, arm), 3)
    angle = 4 * (label + radius) + 0.2 * rng.standard_normal(3 * arm)
    X = radius[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    return pn.formulate("mlp", X, np.eye(3)[label], gates=gates, loss="squared", beta=beta)


def teacher(n: int, d: int, gates: int, fraction: float, seed: int = 0) -> pn.Problem:
    """Gaussian inputs, one output of ten ReLU neurons with a little noise; β as a fraction of β_max."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.maximum(X @ rng.standard_normal((d, 10)), 0) @ rng.standard_normal(10) + 0.1 * rng.standard_normal(n)
    problem = pn.formulate("mlp", X, y, gates=gates, loss="squared")
    return problem.with_beta(fraction * problem.beta_max)


def digits(loss: str, gates: int = 500, fraction: float = 0.01) -> pn.Problem:
    """scikit-learn's digits, standardised, with a bias: n = 1797, p = 65, ten classes."""
    X, labels = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    problem = pn.formulate(pn.MLP(fit_intercept=True), X, np.eye(10)[labels], gates=gates, loss=loss)
    return problem.with_beta(fraction * problem.beta_max)
