"""A weight of two is a sample repeated, for every method, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn

METHODS = ["auto", "admm", "apg", "bm", "ipm"]
LOSSES = ["squared", "huber", "softmax", "logistic"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("method", METHODS)
def test_weights_are_repetitions(method, loss):
    if method == "ipm" and loss != "squared":
        pytest.skip("the interior point takes the squared loss only")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = np.abs(X[:, 0]) + X[:, 1]
    y = (y > y.mean()).astype(float) if loss in ("softmax", "logistic") else y
    weight = rng.integers(0, 4, len(X))
    settings = {"gates": 8, "loss": loss, "beta": 0.3}
    repeated = pn.formulate("mlp", np.repeat(X, weight, axis=0), np.repeat(y, weight), **settings)
    weighted = pn.formulate("mlp", X, y, sample_weight=weight, **settings)
    assert weighted.beta_max == pytest.approx(repeated.beta_max, rel=1e-12)
    a, b = (pn.solve(problem, method, tol=1e-4, max_steps=300) for problem in (repeated, weighted))
    if "lbfgs" in a.method:  # one random sign a row, products in float32: they end apart, within the gap asked for
        assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=1e-4)
        return
    assert a.steps == b.steps
    assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(a.network()(repeated.X).detach(), b.network()(repeated.X).detach(), rtol=1e-6, atol=1e-8)
