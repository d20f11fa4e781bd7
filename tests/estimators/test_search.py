"""The search for beta: grids, folds, scores, warnings."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import provenet as pn
from provenet.estimators.base import watched
from provenet.estimators.search import _best

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
    assert [s.problem.beta for s in clf.path_] == clf.betas_.tolist()
    assert clf.path_[best] is clf.solution_
    assert all(s.certificate.holds(clf.tol) for s in clf.path_)
    assert clf.path_[0].factors.n_neurons == 0  # at beta_max
    assert clf.score(X, y) > 0.85


def test_folds_are_plain_fits_at_their_share_of_beta(curve):
    """Each score is that of ProvenRegressor trained on the fold at beta·n_train/n."""
    X, y = curve
    search = pn.ProvenRegressorCV(**SMALL | {"cv": KFold(3)}, gates="gaussian", tol=1e-7).fit(X, y)
    for scores, (train, test) in zip(search.cv_scores_, KFold(3).split(X), strict=True):
        for score, beta in zip(scores, search.betas_, strict=True):
            plain = pn.ProvenRegressor(beta=beta * len(train) / len(X), gates="gaussian", n_gates=8, tol=1e-7)
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
    assert capsys.readouterr().out.count("beta ") == 8 + len(search.path_) == 12


def stopped(search, after: int, X, y):
    """The search, with Ctrl-C at the look after so many."""
    looks = iter(range(10**6))
    with watched(search, lambda record: next(looks) >= after), pytest.warns(ConvergenceWarning, match="ended by hand"):
        return search.fit(X, y)


def looks_of(search, X, y) -> int:
    looks = []
    with watched(search, lambda record: looks.append(record)):  # an answer of None goes on
        search.fit(X, y)
    return len(looks)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_ctrl_c_keeps_the_best_so_far_with_its_certificate(blobs, share):
    X, y = blobs
    settings = SMALL | {"betas": 3}
    looks = looks_of(pn.ProvenClassifierCV(**settings), X, y)
    search = stopped(pn.ProvenClassifierCV(**settings), int(share * looks), X, y)
    assert search.beta_ == search.certificate_.beta == search.solution_.problem.beta
    assert search.beta_ in search.betas_
    assert len(search.path_) == len(search.betas_)
    assert search.predict(X).shape == y.shape
    if share == 0.9:  # a fold is done: what it says counts
        assert search.certificate_.holds(search.tol)
        assert not np.isnan(search.cv_scores_[0]).any()
        assert np.isnan(search.cv_scores_[-1]).any()


def test_a_time_limit_is_of_the_whole_search(blobs):
    X, y = blobs
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="ended by max_seconds"):
        search = pn.ProvenClassifierCV(betas=1000, beta_ratio=1e-5, cv=5, tol=1e-9, max_seconds=0.5).fit(X, y)
    assert time.perf_counter() - began < 6.0
    assert len(search.betas_) < 1000
    assert search.beta_ == search.certificate_.beta
    assert search.certificate_.holds(1e-9)  # one of those that were finished


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([[1, 3, 2], [np.nan] * 3], 1),
        ([[1, 2, 3], [4, 1, np.nan]], 2),
        ([[1, 3, np.nan], [2, 0.5, np.nan]], 1),
        ([[1, 3, 9], [2, 0, np.nan], [9, np.nan, np.nan]], 2),
        ([[1, np.nan, np.nan]], 0),
        ([[np.nan] * 3], 2),
    ],
)
def test_what_is_best_of_a_search_that_was_cut_short(scores, best):
    assert _best(np.array(scores, dtype=float), cut_short=True) == best
