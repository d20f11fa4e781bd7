"""scikit-learn's own checks.

One asks for predictions equal to seven digits where a method stops anywhere within tol: that weights repeat samples is
tested in `test_auto_beta` and `test_search`, at a small tol."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import provenet as pn

# few gates and steps, for speed: a fit that stops short must be as well-behaved as one that does not
SMALL = {"n_gates": 8, "max_steps": 40}
SEARCH = {"betas": 2, "cv": 2, "beta_ratio": 0.29} | SMALL

ESTIMATORS = [
    pn.ProvenClassifier(),
    pn.ProvenRegressor(),
    pn.ProvenClassifier(beta=0.1, **SMALL),
    pn.ProvenClassifier(beta=0.1, loss="logistic", **SMALL),
    pn.ProvenClassifier(beta=0.1, activation="linear", max_steps=40),
    pn.ProvenRegressor(beta=0.1, **SMALL),
    pn.ProvenRegressor(beta=0.1, loss="huber", **SMALL),
    pn.ProvenClassifierCV(**SEARCH),
    pn.ProvenRegressorCV(**SEARCH),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    try:
        check(estimator)
    except AssertionError:
        if check.func.__name__ != "check_sample_weight_equivalence_on_dense_data":
            raise
        pytest.xfail("both fits have the same gates, β and optimum, and end at different points within tol")
