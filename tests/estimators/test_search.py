"""The search for beta: grids, folds, scores, warnings."""

from __future__ import annotations

import time
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import provenet as pn
from provenet.estimators import search as search_module
from provenet.estimators.choice import chosen, seen_enough
from provenet.estimators.telling import watched

SMALL = {"activation": "gated_relu", "n_gates": 8, "betas": 4, "cv": 2, "beta_ratio": 0.01, "cv_tol": 3e-2}


def test_classifier_search(blobs):
    X, y = blobs
    clf = pn.ProvenClassifierCV(**SMALL).fit(X, y)
    assert clf.cv_scores_.shape == (2, 4)
    assert np.isfinite(clf.cv_scores_).all()
    assert (np.diff(clf.betas_) < 0).all()
    top = clf.solution_.problem.beta_max
    np.testing.assert_allclose(clf.betas_, top * np.geomspace(0.3, 0.01, 4), rtol=1e-12)
    best = chosen(clf.cv_scores_)
    assert clf.beta_ == clf.betas_[best] == clf.certificate_.beta
    assert [s.problem.beta for s in clf.path_] == clf.betas_.tolist()
    assert clf.path_[best] is clf.solution_
    assert clf.certificate_.holds(clf.tol)
    assert clf.certificate_.tol == clf.tol
    assert all(s.certificate.holds(clf.cv_tol) for s in clf.path_)
    results = clf.cv_results_
    assert results["tol"] == clf.cv_tol > clf.tol
    assert (results["relative_gap"] <= clf.cv_tol).all()
    np.testing.assert_allclose(results["mean_test_score"], clf.cv_scores_.mean(0))
    np.testing.assert_array_equal(results["split1_test_score"], clf.cv_scores_[1])
    assert results["rank_test_score"][best] == 1
    assert clf.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_stops_short_is_not_certified_by_the_tolerance_of_folds(blobs):
    clf = pn.ProvenClassifierCV(**SMALL, tol=1e-12, max_steps=16).fit(*blobs)
    assert 1e-12 < clf.certificate_.relative_gap <= clf.cv_tol
    assert clf.certificate_.tol == 1e-12
    assert clf.certificate_.status == "not_certified"
    assert clf.solution_.status != "solved"


def test_folds_are_plain_fits_at_their_share_of_beta(curve):
    """Each score is that of ProvenRegressor trained on the fold at beta·n_train/n."""
    X, y = curve
    search = pn.ProvenRegressorCV(**SMALL | {"cv": KFold(3), "cv_tol": 1e-7}, gates="gaussian", tol=1e-7).fit(X, y)
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

    close = SMALL | {"cv_tol": 1e-9, "tol": 1e-9}
    weighted = pn.ProvenRegressorCV(**close | {"cv": splits(fold)}).fit(X, y, sample_weight=weight)
    repeated = pn.ProvenRegressorCV(**close | {"cv": splits(repeated_fold)})
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.betas_, repeated.betas_, rtol=1e-9)
    np.testing.assert_allclose(weighted.cv_scores_, repeated.cv_scores_, rtol=1e-4)  # of gaps of 1e-9


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_the_smallest_beta_is_that_of_repeated_samples(activation):
    """Of more than 1,500 samples it hangs on how many they are."""
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((1600, 2)), 1 + np.arange(1600) % 2
    y = X[:, 0] - X[:, 1]
    settings = {"activation": activation, "n_gates": 2, "betas": 2, "cv": 2, "max_steps": 1}
    search = pn.ProvenRegressorCV(**settings, standardize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = search.fit(X, y, sample_weight=weight).betas_
        repeated = search.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).betas_
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    assert weighted[1] / weighted[0] == pytest.approx(3 / 1600 / 0.3)


def test_own_betas_in_any_order(blobs):
    X, y = blobs
    clf = pn.ProvenClassifierCV(activation="gated_relu", betas=[0.5, 20.0, 3.0], cv=StratifiedKFold(2), n_gates=8).fit(
        X, y
    )
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

    laziest = pn.ProvenClassifierCV(**SMALL | {"betas": ["1.1max", "0.1max"]}, scoring=most_neurons).fit(X, y)
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
    with pytest.warns(ConvergenceWarning, match=r"fits in the folds stopped above cv_tol"):
        pn.ProvenClassifierCV(**SMALL | {"beta_ratio": 1e-4}, max_steps=3).fit(X, y)


def test_verbose_prints_a_line_for_each_beta(curve, capsys):
    X, y = curve
    search = pn.ProvenRegressorCV(**SMALL, verbose=1).fit(X, y)
    said = capsys.readouterr().out
    assert said.count("beta ") == len(search.betas_) == 4
    assert "4 of 4 at most" in said


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


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_ctrl_c_keeps_the_best_so_far_with_its_certificate(blobs, share):
    X, y = blobs
    settings = SMALL | {"betas": 3, "patience": None}
    whole = pn.ProvenClassifierCV(**settings)
    looks = looks_of(whole, X, y)
    search = stopped(pn.ProvenClassifierCV(**settings), int(share * looks), X, y)
    assert search.beta_ == search.certificate_.beta == search.solution_.problem.beta
    assert search.beta_ in search.betas_
    assert len(search.path_) == len(search.betas_)
    assert search.predict(X).shape == y.shape
    if share > 0:  # a β is done in all folds: what they say counts, as if it had gone on
        assert search.certificate_.holds(search.cv_tol)
        done = ~np.isnan(search.cv_scores_).any(axis=0)
        assert done.any()
        np.testing.assert_array_equal(search.cv_scores_[:, done], whole.cv_scores_[:, : len(done)][:, done])


def test_a_break_between_two_solves_keeps_what_there_is(blobs, monkeypatch):
    X, y = blobs
    calls, follow = [], search_module.followed

    def broken(*args):
        calls.append(args)
        if len(calls) == 5:  # the second β: all the data, then the first fold
            raise KeyboardInterrupt
        return follow(*args)

    monkeypatch.setattr(search_module, "followed", broken)
    with pytest.warns(ConvergenceWarning, match="ended by hand, with 2 of 2 folds and 2 of 4"):
        search = pn.ProvenClassifierCV(**SMALL).fit(X, y)
    assert search.beta_ == search.betas_[0] == search.certificate_.beta
    assert np.isnan(search.cv_scores_[:, 1]).all()


def test_nothing_more_is_tried_when_time_is_over(blobs):
    """A first β on five folds, and every other kind of network, were each begun whatever the clock said."""
    kinds = ["gated_relu", "linear", "relu"]
    with pytest.warns(ConvergenceWarning, match="ended by max_seconds, before activation='linear' was tried"):
        search = pn.ProvenClassifierCV(activation=kinds, n_gates=8, max_seconds=1e-3).fit(*blobs)
    assert [candidate.activation for candidate in search.candidates_] == kinds[:1]
    assert np.isnan(search.cv_scores_).all()
    assert search.beta_ == search.certificate_.beta


def test_a_time_limit_is_of_the_whole_search(blobs):
    X, y = blobs
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="ended by max_seconds"):
        search = pn.ProvenClassifierCV(
            activation="gated_relu",
            betas=1000,
            beta_ratio=1e-5,
            cv=5,
            tol=1e-3,
            patience=None,
            n_gates=8,
            max_seconds=0.5,
        ).fit(X, y)
    assert time.perf_counter() - began < 6.0
    assert len(search.betas_) < 1000
    assert search.beta_ == search.certificate_.beta
    assert len(search.path_) == 1 or search.certificate_.holds(
        search.cv_results_["tol"]
    )  # one of those that were finished


def test_the_answer_is_the_same_with_several_jobs(blobs):
    X, y = blobs
    settings = SMALL | {"betas": 2, "gates": "trained"}
    with joblib.parallel_config(backend="multiprocessing"):  # forks are quick; joblib's own processes import anew
        one, two = (pn.ProvenClassifierCV(**settings, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    np.testing.assert_array_equal(one.cv_scores_, two.cv_scores_)
    assert one.beta_ == two.beta_
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=1e-12)


def test_the_path_is_within_its_gaps_of_independent_solves(blobs):
    X, y = blobs
    search = pn.ProvenClassifierCV(**SMALL, patience=None).fit(X, y)
    for warm in search.path_:
        alone = pn.solve(warm.problem, tol=1e-6).certificate
        assert alone.dual - 1e-9 <= warm.certificate.primal
        assert warm.certificate.primal - alone.primal <= warm.certificate.gap + 1e-9
        assert warm.certificate.dual <= alone.primal + 1e-9


def test_it_ends_where_smaller_betas_are_no_better(blobs):
    X, y = blobs

    def small_is_bad(model, X, y):
        return min(model.solution_.problem.beta, 1.0)  # the same as long as β is large, then worse

    search = pn.ProvenClassifierCV(**SMALL | {"betas": 5}, scoring=small_is_bad, patience=2)
    assert len(search.fit(X, y).betas_) == 3
    assert search.beta_ == search.betas_[0]
    assert len(search.set_params(patience=None).fit(X, y).betas_) == 5


@pytest.mark.parametrize(
    ("means", "patience", "ends"),
    [([1, 2, 2, 2], 3, False), ([1, 2, 2, 1, 2], 3, True), ([3, 2, 1, 4], 3, False), ([3, 1, 1, 1], None, False)],
)
def test_enough_is_so_many_without_a_better_one(means, patience, ends):
    scores = np.array([means, means], dtype=float)
    assert seen_enough([16.0, 8.0, 4.0, 2.0, 1.0], scores, patience) is ends
    assert not seen_enough([1.0, 0.9, 0.8, 0.7, 0.6], scores, patience)  # neighbours


def test_rules(blobs):
    # means 0, 4, 5, 5; the folds of the third differ by 2: its standard error is 1
    scores = np.array([[0, 3, 4, 5], [0, 5, 6, 5]], dtype=float)
    assert chosen(scores) == chosen(scores, "best") == 2
    assert chosen(scores, "smooth") == 3  # 1, 3.25, 4.75, 5: it has no neighbour that is worse
    assert chosen(np.array([[9.0, 0, 8, 8, 8]]), "smooth") == 3
    assert chosen(np.array([[9.0, 0, 8, 8, 8]]), "best") == 0
    assert chosen(scores, "one_se") == 1
    assert chosen(scores[:1], "one_se") == 3  # one fold has no standard error
    X, y = blobs
    with pytest.raises(ValueError, match="rule: 'worst' is unknown"):
        pn.ProvenClassifierCV(**SMALL, rule="worst").fit(X, y)
    with pytest.raises(ValueError, match="cv_tol"):
        pn.ProvenClassifierCV(**SMALL | {"cv_tol": 0}).fit(X, y)
    large = pn.ProvenClassifierCV(**SMALL, rule="one_se").fit(X, y)
    assert large.beta_ == large.betas_[chosen(large.cv_scores_, "one_se")]


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([[1, 3, 2], [np.nan] * 3], 1),
        ([[1, 2, 3], [4, 1, np.nan]], 0),
        ([[1, 3, np.nan], [2, 0.5, np.nan]], 1),
        ([[1, 3], [np.nan, 1]], 1),
        ([[np.nan, 2], [3, np.nan]], 0),
        ([[1, np.nan, np.nan]], 0),
        ([[np.nan] * 3], 2),
    ],
)
def test_what_is_best_of_a_search_that_was_cut_short(scores, best):
    assert chosen(np.array(scores, dtype=float), cut_short=True) == best


def test_a_search_tells_how_much_of_it_is_done() -> None:
    X, y = load_iris(return_X_y=True)
    told: list[tuple[float, str]] = []
    search = pn.ProvenClassifierCV(betas=3, cv=2, tol=1e-2, activation=["linear", "relu"])
    with watched(search, lambda record: None, counter=lambda done, what: told.append((done, what))):
        search.fit(X[::3], y[::3])
    done = [share for share, _ in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)
    assert told[0][1] == "linear, beta 1 of 3"
    assert (0.5, "relu, fold 1 of 2") in told
    assert told[-1][1] == "the network that is kept"
    before = len(told)
    search.fit(X[::3], y[::3])
    assert len(told) == before
