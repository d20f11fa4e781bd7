"""Other norms than weight decay's in the estimators."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

import provenet as pn


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((40, 6))
    return X, np.stack([np.maximum(X[:, 2], 0), X[:, 4]], axis=1)


def test_the_norms_reach_the_problem(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = data
    settings = {"beta": 3.0, "gates": "gaussian", "n_gates": 5, "fit_intercept": False, "standardize": False}
    model = pn.ProvenRegressor(**settings, penalty=(1, 2)).fit(X, Y)
    assert model.solution_.problem.penalty == model.certificate_.penalty == (1, 2)
    assert model.certificate_.status == "certified"
    read = np.flatnonzero(np.abs(model.network_.first.detach().numpy()).max(0) > 0)
    assert set(read) <= {2, 4}  # features that are not needed are not read
    assert clone(model).penalty == (1, 2)


def test_folds_are_fits_with_the_same_norms(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = data
    settings = {"gates": "gaussian", "n_gates": 5, "penalty": (math.inf, 1), "tol": 1e-7}
    search = pn.ProvenRegressorCV(betas=3, beta_ratio=0.05, cv=KFold(2), cv_tol=1e-7, **settings).fit(X, Y)
    assert search.certificate_.penalty == (math.inf, 1)
    train, test = next(KFold(2).split(X))
    for score, beta in zip(search.cv_scores_[0], search.betas_, strict=True):
        plain = pn.ProvenRegressor(beta=beta / 2, **settings).fit(X[train], Y[train])
        assert score == pytest.approx(plain.score(X[test], Y[test]), abs=1e-3)


def test_wrong_norms_are_named(data: tuple[np.ndarray, np.ndarray]) -> None:
    for wrong in ((1, 3), "1,2", 2):
        with pytest.raises(ValueError, match="penalty: a pair"):
            pn.ProvenRegressor(penalty=wrong).fit(*data)
