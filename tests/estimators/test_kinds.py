"""Which kinds of networks a search tries, and folds whose ReLU networks are trained, not solved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

import provenet as pn
from provenet.deadline import Budget
from provenet.estimators import search as search_module
from provenet.estimators import stand_ins, trained_folds
from provenet.estimators.choice import Candidate
from provenet.report import report

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
CORNERS = (X[:, 0] * X[:, 1] > 0).astype(int)
HALVES = (X[:, 0] > 0.1).astype(int)
SMALL: dict[str, Any] = {"betas": 3, "cv": 2, "n_gates": 8, "tol": 1e-2}


def search(**settings: Any) -> pn.ProvenClassifierCV:
    return pn.ProvenClassifierCV(**SMALL | settings)


def tried(model: Any) -> list[str]:
    return [candidate.activation for candidate in model.candidates_]


def test_what_is_tried_depends_on_the_data() -> None:
    assert tried(search().fit(X, CORNERS)) == ["linear", "relu"]
    many = np.arange(60) % 7
    assert tried(search(betas=2).fit(X + 4 * many[:, None], many)) == ["linear", "gated_relu"]
    images = RNG.standard_normal((20, 1, 3, 3))
    assert tried(search(block=pn.CNN(kernel=2), betas=2).fit(images, CORNERS[:20])) == ["gated_relu"]


@pytest.mark.parametrize("own", [{"gates": "gaussian"}, {"n_gates": np.eye(3)}, {"solver": "apg"}, {"penalty": (2, 1)}])
def test_with_settings_of_ones_own_it_is_gated_relu_alone(own: dict[str, Any]) -> None:
    assert tried(search(betas=2, **own).fit(X, CORNERS)) == ["gated_relu"]


def test_the_kind_that_fits_is_taken_and_proven() -> None:
    corners, halves = search().fit(X, CORNERS), search().fit(X, HALVES)
    assert (corners.activation_, halves.activation_) == ("relu", "linear")  # the first of equals has the least freedom
    assert corners.solution_.problem.activation == "relu"
    assert corners.certificate_.holds(1e-2)
    assert corners.beta_ == corners.certificate_.beta
    assert corners.beta_ in corners.betas_
    assert corners.score(X, CORNERS) > 0.9
    assert corners.cv_scores_.shape == (2, 3)
    assert corners.path_ == [corners.solution_]  # the folds chose: only what is kept was solved
    assert np.isnan(corners.cv_results_["relative_gap"]).all()


def test_trained_folds_score_much_as_solved_ones() -> None:
    rough = search(activation="relu").fit(X, CORNERS)
    solved = search(activation="relu", cv_tol=1e-2, betas=rough.betas_).fit(X, CORNERS)
    assert len(solved.path_) == 3
    assert (solved.cv_results_["relative_gap"] <= 1e-2).all()
    np.testing.assert_allclose(rough.cv_scores_.mean(0), solved.cv_scores_.mean(0), atol=0.15)


def test_regressions_weights_and_jobs() -> None:
    y, weight = np.abs(X[:, 0]) + 0.1 * X[:, 1], RNG.uniform(0.5, 2.0, 60)
    settings = SMALL | {"activation": "relu"}
    with joblib.parallel_config(backend="multiprocessing"):
        one, two = (pn.ProvenRegressorCV(**settings, n_jobs=jobs).fit(X, y, weight) for jobs in (None, 2))
    np.testing.assert_array_equal(one.cv_scores_, two.cv_scores_)
    assert one.cv_scores_.max() > 0.9
    assert one.certificate_.holds(1e-2)


@pytest.mark.parametrize("activation", ["relu", "gated_relu", "linear"])
def test_one_class_in_a_fold(activation: str) -> None:
    """What it learns is a constant; the other class is what it is judged by."""
    order = np.argsort(CORNERS, kind="stable")
    model = search(activation=activation, cv=KFold(2), betas=2).fit(X[order], CORNERS[order])
    assert (model.cv_scores_ < 0.6).all()
    assert model.certificate_.holds(1e-2)
    assert model.classes_.tolist() == [0, 1]


def test_folds_are_trained_on_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, posed = [], trained_folds.roughly

    def watched(model: Any, data: Any, seed: int) -> Any:
        seen.append(len(data.X))
        return posed(model, data, seed)

    monkeypatch.setattr(trained_folds, "roughly", watched)
    search(activation="relu", cv=3).fit(X, CORNERS)
    assert seen == [40, 40, 40]


def test_a_time_limit_ends_the_trainings() -> None:
    with pytest.warns(ConvergenceWarning, match="ended by max_seconds"):
        model = search(activation="relu", betas=2000, cv=5, max_seconds=0.5).fit(X, CORNERS)
    assert np.isnan(model.cv_scores_).any()
    assert model.beta_ in model.betas_


def test_ctrl_c_in_the_second_kind_keeps_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "trained_scores", broken)
    with pytest.warns(ConvergenceWarning, match="ended by hand, before activation='relu'"):
        model = search().fit(X, CORNERS)
    assert model.activation_ == "linear"
    with pytest.raises(KeyboardInterrupt):
        search(activation="relu").fit(X, CORNERS)


def test_a_report_of_a_search_that_solved_one(tmp_path: Any) -> None:
    model = search(verbose=0).fit(X, CORNERS)
    assert report(model, tmp_path / "report.html", X, CORNERS).exists()


SEVEN = np.arange(70) % 7
CIRCLE = 3 * np.column_stack([np.cos(SEVEN * 0.9), np.sin(SEVEN * 0.9)]) + RNG.standard_normal((70, 2))


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_folds_of_many_outputs_are_trained(activation: str) -> None:
    trained = search(activation=activation).fit(CIRCLE, SEVEN)
    assert trained.path_ == [trained.solution_]
    assert trained.solution_.problem.activation == activation
    assert np.isnan(trained.cv_results_["relative_gap"]).all()
    assert trained.certificate_.holds(1e-2)
    solved = search(activation=activation, cv_tol=1e-2, betas=trained.betas_).fit(CIRCLE, SEVEN)
    assert len(solved.path_) == 3
    np.testing.assert_allclose(trained.cv_scores_.mean(0), solved.cv_scores_.mean(0), atol=0.2)


def test_gates_of_ones_own_are_solved_on_folds_of_many_outputs() -> None:
    model = search(activation="gated_relu", gates="gaussian", betas=2).fit(CIRCLE, SEVEN)
    assert len(model.path_) == 2


def candidate(activation: str, score: float) -> Candidate:
    return Candidate(activation, "auto", np.ones(1), np.array([[score], [score]]))


def test_a_kind_that_leads_by_little_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "_hidden", lambda *_: 0.2)
    model, solved = SimpleNamespace(path_=[]), SimpleNamespace(path_=["solved"])

    def led(lead: float, by: Any = model, kind: str = "gated_relu") -> float:
        tried = [(candidate("linear", 0.7), model, 0), (candidate(kind, 0.7 + lead), by, 0)]
        return stand_ins.checked(tried, None, 0.03, Budget(None))[1][0].score

    assert led(0.02) == pytest.approx(0.52)  # now the linear one is taken
    assert led(0.05) == pytest.approx(0.75)
    assert led(0.02, solved) == pytest.approx(0.72)
    assert led(0.02, kind="relu") == pytest.approx(0.72)


def test_what_stand_ins_hide_is_measured_on_two_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    model = search(activation="gated_relu", betas=2, cv=3).fit(CIRCLE, SEVEN)
    seen = []
    monkeypatch.setattr(stand_ins, "followed", lambda fold, *_: seen.append(fold) or SimpleNamespace(score=0.25))
    found = stand_ins._hidden(model, model._read(CIRCLE, SEVEN, None), 1, 0.03, Budget(None))
    assert len(seen) == 2
    assert found == pytest.approx(model.cv_scores_[:2, 1].mean() - 0.25)
    monkeypatch.undo()
    assert abs(stand_ins._hidden(model, model._read(CIRCLE, SEVEN, None), 1, 0.03, Budget(None))) < 0.3
