"""Estimators standardise tables by default, and say so where they do not and should."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import provenet as pn
from provenet.estimators.scales import ScaleWarning

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3)) * [1e5, 1e-3, 1.0] + [1e6, 0, 5]
y = 3 * (X[:, 0] / 1e5) + np.abs(X[:, 1]) * 5e3 + 1000
SMALL: dict[str, Any] = {"n_gates": 10, "tol": 1e-5}


def test_incomes_beside_rates() -> None:
    model = pn.ProvenRegressor(**SMALL).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.certificate_.standardized
    assert "standardised" in str(model.certificate_)
    assert abs(model.predict(X).mean() - y.mean()) < y.std()  # in the units of y
    np.testing.assert_allclose(model.network_(torch.tensor(X)).detach()[:, 0], model.predict(X), rtol=1e-12)


def test_units_do_not_matter() -> None:
    one, other = pn.ProvenClassifier(**SMALL), pn.ProvenClassifier(**SMALL)
    one.fit(X, y > y.mean())
    other.fit(X * [1e-9, 2.0**40, 1e-300] + [0, 1e3, 0], y > y.mean())
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-4)


def test_as_a_pipeline_with_a_scaler() -> None:
    """The certificate is that of the standardised problem, posed by hand."""
    by_hand = make_pipeline(StandardScaler(), pn.ProvenClassifier(standardize=False, **SMALL)).fit(X, y > 1033)
    own = pn.ProvenClassifier(**SMALL).fit(X, y > 1033)
    assert own.certificate_.primal == pytest.approx(by_hand[-1].certificate_.primal, rel=1e-6)
    assert own.beta_ == pytest.approx(by_hand[-1].beta_, rel=1e-9)


def test_the_target_too() -> None:
    ready = (y - y.mean()) / y.std()
    own = pn.ProvenRegressor(**SMALL).fit(X, y)
    by_hand = pn.ProvenRegressor(**SMALL, standardize=False).fit(StandardScaler().fit_transform(X), ready)
    assert own.certificate_.primal == pytest.approx(by_hand.certificate_.primal, rel=1e-6)
    assert own.score(X, y) == pytest.approx(by_hand.score(StandardScaler().fit_transform(X), ready), abs=1e-6)
    several = pn.ProvenRegressor(**SMALL).fit(X, np.c_[y, -1e6 * y])
    assert several.score(X, np.c_[y, -1e6 * y]) > 0.9
    assert several.predict(X).shape == (80, 2)


def test_huber_counts_in_deviations_of_the_target() -> None:
    spoilt = np.where(np.arange(80) == 3, 1e9, y)
    assert pn.ProvenRegressor(loss="huber", **SMALL).fit(X, spoilt).score(X[4:], y[4:]) > 0.5


def test_each_fold_has_moments_of_its_own() -> None:
    same = SMALL | {"gates": "gaussian"}  # others are found for a β, and a search has one for all of its own
    search = pn.ProvenRegressorCV(betas=3, cv=KFold(2), cv_tol=1e-4, **same).fit(X, y)
    train, test = next(KFold(2).split(X))
    alone = pn.ProvenRegressor(beta=search.betas_[1] / 2, **same).fit(X[train], y[train])
    assert search.cv_scores_[0, 1] == pytest.approx(alone.score(X[test], y[test]), abs=1e-3)
    assert search.network_.mean.numpy() == pytest.approx(X.mean(0))


@pytest.mark.parametrize(("asked", "done"), [("auto", False), (True, True), (False, False)])
def test_images_and_tokens_only_when_asked(asked: Any, done: bool) -> None:
    images = RNG.standard_normal((20, 2, 4, 4))
    model = pn.ProvenClassifier(block="cnn", n_gates=4, beta=1.0, standardize=asked).fit(images, np.arange(20) % 2)
    assert isinstance(model.network_, pn.nn.Standardised) == model.certificate_.standardized == done


def test_a_word_of_scales_far_apart() -> None:
    frame = pd.DataFrame(X, columns=["income", "rate", "age"])
    with pytest.warns(ScaleWarning, match=r"feature 'income' goes up to .*'rate' to .*standardize=True"):
        pn.ProvenClassifier(standardize=False, **SMALL).fit(frame, y > 1033)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        pn.ProvenClassifier(**SMALL).fit(X, y > 1033)
        pn.ProvenClassifier(standardize=False, **SMALL).fit(StandardScaler().fit_transform(X), y > 1033)


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="standardize: choose True, False or 'auto', got 'yes'"):
        pn.ProvenClassifier(standardize="yes", **SMALL).fit(X, y > 1033)
    with pytest.raises(ValueError, match="standardize, whiten"):
        pn.ProvenRegressor(standardize=True, whiten=True, **SMALL).fit(X[:3], y[:3])


def test_constant_targets_and_features() -> None:
    model = pn.ProvenRegressor(**SMALL).fit(np.ones((10, 2)), np.full(10, 7.0))
    np.testing.assert_allclose(model.predict(np.zeros((3, 2))), 7.0)
    assert model.certificate_.status == "certified"
