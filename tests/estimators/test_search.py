"""The search for beta: grids, folds, scores, warnings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import provenet as pn

SMALL = {"n_gates": 8, "betas": 4, "cv": 2, "beta_ratio": 0.01}


def test_classifier_search(blobs):
    X, y = blobs
    clf = pn.ProvenClassifierCV(**SMALL).fit(X, y)
    assert clf.cv_scores_.shape == (2, 4)
    assert np.isfinite(clf.cv_scores_).all()
    assert (np.diff(clf.betas_) < 0).all()
    top = clf.solution_.problem.beta_max
    np.testing.assert_allclose(clf.betas_, top * np.geomspace(1, 0.01, 4), rtol=1e-12)
    best = clf.cv_scores_.mean(0).argmax()
    assert clf.beta_ == clf.betas_[best] == clf.certificate_.beta
    assert [s.problem.beta for s in clf.path_] == clf.betas_[: best + 1].tolist()
    assert clf.path_[-1] is clf.solution_
    assert all(s.certificate.holds(clf.tol) for s in clf.path_)
    assert clf.path_[0].factors.n_neurons == 0  # at beta_max
    assert clf.score(X, y) > 0.85


def test_folds_are_plain_fits_at_their_share_of_beta(curve):
    """Each score is that of ProvenRegressor trained on the fold at beta·n_train/n."""
    X, y = curve
    search = pn.ProvenRegressorCV(**SMALL | {"cv": KFold(3)}, tol=1e-7).fit(X, y)
    for scores, (train, test) in zip(search.cv_scores_, KFold(3).split(X), strict=True):
        for score, beta in zip(scores, search.betas_, strict=True):
            plain = pn.ProvenRegressor(beta=beta * len(train) / len(X), n_gates=8, tol=1e-7)
            assert score == pytest.approx(plain.fit(X[train], y[train]).score(X[test], y[test]), abs=1e-3)


def test_weights_repeat_samples_in_the_search(curve):
    X, y = curve
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    fold = np.arange(len(X)) % 2
    repeated_fold = np.repeat(fold, weight)

    def splits(of):
        return [(np.flatnonzero(of == 0), np.flatnonzero(of == 1)), (np.flatnonzero(of == 1), np.flatnonzero(of == 0))]

    weighted = pn.ProvenRegressorCV(**SMALL | {"cv": splits(fold)}).fit(X, y, sample_weight=weight)
    repeated = pn.ProvenRegressorCV(**SMALL | {"cv": splits(repeated_fold)})
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.betas_, repeated.betas_, rtol=1e-9)
    np.testing.assert_allclose(weighted.cv_scores_, repeated.cv_scores_, rtol=1e-6)


def test_own_betas_in_any_order(blobs):
    X, y = blobs
    clf = pn.ProvenClassifierCV(betas=[0.5, 20.0, 3.0], cv=StratifiedKFold(2), n_gates=8).fit(X, y)
    assert clf.betas_.tolist() == [20.0, 3.0, 0.5]
    for bad in ([], [1.0, -1.0], [[1.0]], 1, True):
        with pytest.raises(ValueError, match="betas"):
            pn.ProvenClassifierCV(betas=bad, cv=2, n_gates=8).fit(X, y)


def test_scoring_decides(blobs):
    X, y = blobs
    names = pd.DataFrame(X, columns=["east", "north"])
    clf = pn.ProvenClassifierCV(**SMALL, scoring="neg_log_loss").fit(names, np.array(["x", "y", "z"])[y])
    assert (clf.cv_scores_ < 0).all()
    assert clf.feature_names_in_.tolist() == ["east", "north"]

    def most_neurons(model, X, y):
        return -model.network_.first.shape[0]

    laziest = pn.ProvenClassifierCV(**SMALL, scoring=most_neurons).fit(X, y)
    assert laziest.beta_ == laziest.betas_[0]
    assert laziest.network_.first.shape[0] == 0
    with pytest.raises(ValueError, match="scoring"):
        pn.ProvenClassifierCV(**SMALL, scoring=lambda model, X, y: np.nan).fit(X, y)


def test_a_class_missing_from_a_fold(blobs):
    X, y = blobs
    order = np.argsort(y, kind="stable")
    clf = pn.ProvenClassifierCV(**SMALL | {"cv": KFold(3)}).fit(X[order], y[order])
    assert clf.cv_scores_.shape == (3, 4)
    assert (clf.cv_scores_ < 0.5).all()
    assert clf.classes_.tolist() == [0, 1, 2]


def test_stopping_short_warns_once_for_the_folds(blobs):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match=r"fits in the folds stopped above tol"):
        pn.ProvenClassifierCV(**SMALL | {"beta_ratio": 1e-4}, max_steps=3).fit(X, y)


def test_verbose_prints_the_path(curve, capsys):
    X, y = curve
    search = pn.ProvenRegressorCV(**SMALL, verbose=1).fit(X, y)
    assert capsys.readouterr().out.count("beta ") == 8 + len(search.path_)
