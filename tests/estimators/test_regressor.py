"""ProvenRegressor: shapes, losses, weights, scales."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import HuberRegressor

import provenet as pn


def regressor(**settings):
    return pn.ProvenRegressor(**({"beta": 0.1, "n_gates": 10} | settings))


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_fit_is_certified(curve, loss):
    X, y = curve
    reg = regressor(loss=loss, delta=0.5).fit(X, y)
    assert reg.certificate_.holds(reg.tol)
    assert reg.predict(X).shape == y.shape
    assert reg.score(X, y) > 0.7


def test_predictions_have_the_shape_of_the_targets(curve):
    X, y = curve
    one = regressor().fit(X, y)
    column = regressor().fit(X, y[:, None])
    assert one.predict(X).shape == (50,)
    assert column.predict(X).shape == (50, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], one.predict(X))
    many = regressor().fit(X, np.c_[y, -y, X[:, 0]])
    assert many.predict(X).shape == (50, 3)
    np.testing.assert_allclose(many.network_(torch.from_numpy(X)).detach().numpy(), many.predict(X), rtol=1e-12)
    assert many.certificate_.holds(many.tol)
    assert many.score(X, np.c_[y, -y, X[:, 0]]) > 0.7


def test_outputs_are_trained_jointly(curve):
    """The same target twice costs √2 of one, not 2: the outputs share their neurons (nuclear norm of rank one)."""
    X, y = curve
    one = regressor(gates="gaussian", tol=1e-6, standardize=False).fit(X, y * 2**0.5)
    two = regressor(gates="gaussian", tol=1e-6, standardize=False).fit(X, np.c_[y, y])
    assert two.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-5)


def test_huber_forgives_outliers(curve):
    X, y = curve
    spoilt = y.copy()
    spoilt[::10] += 30
    clean = np.arange(len(y)) % 10 != 0
    error = {
        loss: np.abs(regressor(loss=loss, delta=0.3, beta=3.0).fit(X, spoilt).predict(X[clean]) - y[clean]).mean()
        for loss in ("squared", "huber")
    }
    assert error["huber"] < 0.5 * error["squared"]


def test_huber_is_no_worse_than_any_linear_model(curve):
    """Linear activation, one output: the penalty β‖w‖ is bounded by any other model's value of the same objective."""
    X, y = curve
    X1 = np.c_[X, np.ones(len(X))]
    reg = regressor(loss="huber", activation="linear", delta=0.7, beta=0.5, tol=1e-8).fit(X, y)
    other = HuberRegressor(alpha=1e-3, fit_intercept=False).fit(X1, y).coef_
    r = np.abs(X1 @ other - y)
    value = np.where(r <= 0.7, r**2 / 2, 0.7 * (r - 0.35)).sum() + 0.5 * np.linalg.norm(other)
    assert reg.certificate_.primal <= value + reg.dual_gap_


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_weights_repeat_samples(curve, loss):
    X, y = curve
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    repeated = regressor(loss=loss).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    weighted = regressor(loss=loss).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)


def test_warm_start_across_units(curve):
    """Doubled targets and beta double the optimal Z: the old neurons, in new units, are still a good start."""
    X, y = curve
    reg = regressor(warm_start=True, tol=1e-6).fit(X, y)
    reg.set_params(beta=0.1001).fit(X, 16 * y)
    assert reg.certificate_.holds(1e-6)
    cold = regressor(beta=0.1001, tol=1e-6).fit(X, 16 * y)
    assert reg.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("target", [0.0, 3.0])
def test_constant_targets(curve, target):
    X, _ = curve
    reg = regressor(beta=1e-2).fit(X, np.full(len(X), target))
    assert reg.certificate_.holds(reg.tol)
    np.testing.assert_allclose(reg.predict(X), target, atol=0.05)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int64, bool])
def test_any_kind_of_number(curve, kind):
    X, y = curve
    X = (X * 4).astype(kind)
    reg = regressor().fit(X, y)
    assert reg.network_.first.dtype == torch.float64
    np.testing.assert_allclose(reg.predict(X), reg.predict(X.astype(np.float64)), rtol=1e-12)


def test_bad_settings_are_named(curve):
    X, y = curve
    with pytest.raises(ValueError, match="loss"):
        regressor(loss="softmax").fit(X, y)
    with pytest.raises(ValueError, match="delta"):
        regressor(loss="huber", delta=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="Y: 50 samples"):
        regressor().fit(X, y[:10])
