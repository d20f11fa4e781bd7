"""ProvenClassifier: labels, probabilities, weights, containers, proofs."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import provenet as pn
from provenet import batches


def classifier(**settings):
    return pn.ProvenClassifier(**({"beta": 1.0, "n_gates": 10} | settings))


def test_fit_is_certified_and_consistent(blobs):
    X, y = blobs
    clf = classifier().fit(X, y)
    assert clf.certificate_.holds(clf.tol)
    assert clf.certificate_.scope == "fixed_gates"
    assert clf.dual_gap_ == clf.certificate_.gap >= 0
    assert clf.n_iter_ == clf.solution_.steps
    assert clf.n_features_in_ == 2
    logits = clf.network_(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(clf.decision_function(X), logits, rtol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X), torch.from_numpy(logits).softmax(1).numpy(), rtol=1e-10)
    assert clf.score(X, y) > 0.85


def test_certificate_is_of_the_users_problem(blobs):
    """The same problem, posed by hand from the raw data, certifies the estimator's network."""
    X, y = blobs
    clf = classifier().fit(X, y)
    settings = {"gates": "trained", "n_gates": 10, "fit_intercept": "free", "loss": "softmax", "standardize": True}
    problem = pn.formulate("mlp", X, y, beta=1.0, seed=0, **settings)
    again = pn.certify(problem, clf.network_, tol=clf.tol)
    assert again.primal == pytest.approx(clf.certificate_.primal, rel=1e-12)
    assert again.holds(clf.tol)


def test_linear_activation_with_two_classes_beats_no_other_linear_model(blobs):
    """The nuclear norm of a vector is its length, so the proven optimum is no worse than any linear model's value."""
    X, y = blobs
    X, y = X[y < 2], y[y < 2]
    clf = classifier(activation="linear", loss="logistic", beta=0.5, tol=1e-8).fit(X, y)
    other = LogisticRegression(C=0.1, fit_intercept=False).fit(np.c_[X, np.ones(len(X))], y)
    w = other.coef_[0]
    margin = np.where(y == 1, 1, -1) * (np.c_[X, np.ones(len(X))] @ w)
    value = np.logaddexp(0, -margin).sum() + 0.5 * np.linalg.norm(w)
    assert clf.certificate_.primal <= value + clf.dual_gap_


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_probabilities_and_labels_agree(blobs, loss, n_classes):
    X, y = blobs
    X, y = X[y < n_classes], y[y < n_classes]
    names = np.array(["b", "c", "a"])[y]
    clf = classifier(loss=loss).fit(X, names)
    outputs = 1 if (loss, n_classes) == ("logistic", 2) else n_classes
    assert clf.network_.second.shape[1] == outputs
    assert clf.classes_.tolist() == sorted(set(names))
    proba, score = clf.predict_proba(X), clf.decision_function(X)
    assert proba.shape == (len(X), n_classes)
    assert score.shape == ((len(X),) if n_classes == 2 else (len(X), 3))
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)
    assert (clf.predict(X) == clf.classes_[proba.argmax(1)]).all()
    assert clf.score(X, names) > 0.8
    assert clf.score(X, np.full(len(X), "never seen")) == 0


def test_probabilities_far_out_are_numbers(blobs):
    X, y = blobs
    clf = classifier(loss="logistic", activation="linear").fit(X, y)
    proba = clf.predict_proba(X * 1e6)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-12)


def test_weights_repeat_samples(blobs):
    X, y = blobs
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = classifier(tol=1e-6).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    weighted = classifier(tol=1e-6).fit(X, y, sample_weight=weight)
    # the same gates and optimum; L-BFGS ends anywhere within tol of it
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_class_of_zero_weight_is_no_class(blobs):
    X, y = blobs
    clf = classifier().fit(X, y, sample_weight=(y != 1).astype(float))
    assert clf.classes_.tolist() == [0, 2]
    without = classifier().fit(X[y != 1], y[y != 1])
    np.testing.assert_allclose(clf.predict_proba(X), without.predict_proba(X), rtol=1e-9)


def test_class_weights_are_sample_weights(blobs):
    X, y = blobs
    keep = (y != 0) | (np.arange(len(y)) % 3 == 0)
    X, names = X[keep], np.array(["x", "y", "z"])[y[keep]]
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    given = {"x": 3.0, "z": 0.5}
    by_class = classifier(class_weight=given).fit(X, names, sample_weight=weight)
    by_sample = classifier().fit(X, names, sample_weight=weight * [given.get(name, 1.0) for name in names])
    assert by_class.certificate_.primal == by_sample.certificate_.primal
    balanced = classifier(class_weight="balanced").fit(X, names, sample_weight=weight)
    totals = {name: weight[names == name].sum() for name in "xyz"}
    share = {name: weight.sum() / (3 * total) for name, total in totals.items()}
    by_share = classifier(class_weight=share).fit(X, names, sample_weight=weight)
    assert balanced.certificate_.primal == pytest.approx(by_share.certificate_.primal, rel=1e-12)


def test_balanced_weights_repeat_samples(blobs):
    X, y = blobs
    weight = 1 + (y == 0) * 2
    settings = {"class_weight": "balanced", "tol": 1e-6}
    repeated = classifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    weighted = classifier(**settings).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_containers_agree(blobs):
    X, y = blobs
    plain = classifier().fit(X, y)
    frame = pd.DataFrame(X, columns=["east", "north"])
    from_frame = classifier().fit(frame, pd.Series(y))
    assert from_frame.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(from_frame.decision_function(frame), plain.decision_function(X))
    tensors = classifier().fit(torch.from_numpy(X).requires_grad_(), torch.from_numpy(y))
    np.testing.assert_array_equal(tensors.decision_function(torch.from_numpy(X)), plain.decision_function(X))
    assert (tensors.predict(torch.from_numpy(X).to(torch.bfloat16)) == plain.predict(X)).mean() > 0.9
    with pytest.warns(UserWarning, match="feature names"):
        from_frame.predict(X)


def test_predicts_in_batches(blobs, monkeypatch):
    X, y = blobs
    clf = classifier().fit(X, y)
    whole = clf.decision_function(X)
    monkeypatch.setattr(batches, "PASS", 1)
    np.testing.assert_allclose(clf.decision_function(X), whole, rtol=1e-12)


def test_works_with_the_rest_of_sklearn(blobs):
    X, y = blobs
    grid = GridSearchCV(make_pipeline(StandardScaler(), classifier()), {"provenclassifier__beta": [0.5, 50.0]}, cv=2)
    grid.fit(X, y)
    assert grid.best_params_ == {"provenclassifier__beta": 0.5}
    assert grid.best_estimator_[-1].certificate_.holds(1e-3)
    model = clone(grid.best_estimator_[-1])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_pickles_whole(blobs):
    X, y = blobs
    clf = classifier().fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.certificate_ == clf.certificate_


def test_warm_start_goes_on_from_the_last_solution(blobs):
    X, y = blobs
    clf = classifier(warm_start=True, tol=1e-6).fit(X, y)
    assert clf.n_iter_ > 0
    clf.fit(X, y)
    assert clf.n_iter_ == 0
    assert clf.certificate_.holds(1e-6)
    scaled = clf.fit(X[:, :1], y)  # another size: a cold start, no error
    assert scaled.certificate_.holds(1e-6)


def test_stopping_short_warns_with_the_gap(blobs):
    X, y = blobs
    with pytest.warns(ConvergenceWarning, match=r"relative gap of .*max_steps"):
        clf = classifier(max_steps=2, beta=1e-3).fit(X, y)
    assert not clf.certificate_.holds(clf.tol)
    assert clf.certificate_.status == "not_certified"


def test_verbose_prints_progress(blobs, capsys):
    X, y = blobs
    classifier().fit(X, y)
    assert capsys.readouterr().out == ""
    classifier(verbose=1).fit(X, y)
    assert "relative gap" in capsys.readouterr().out


def test_notebook_shows_the_certificate(blobs):
    X, y = blobs
    clf = classifier()
    assert "Certificate" not in clf._repr_mimebundle_()["text/html"]
    clf.fit(X, y)
    for page in (clf._repr_mimebundle_()["text/html"], clf._repr_html_()):
        assert "ProvenClassifier" in page
        assert clf.certificate_._repr_html_() in page
    assert "fixed_gates" in clf.certificate_._repr_html_()


def test_zero_network_from_beta_max_on(blobs):
    X, y = blobs
    top = classifier(gates="gaussian").fit(X, y).solution_.problem.beta_max  # others are found for a β of their own
    clf = classifier(beta=1.01 * top, gates="gaussian").fit(X, y)
    assert clf.network_.first.shape[0] == 0
    assert clf.certificate_.holds(1e-10)
    np.testing.assert_allclose(clf.predict_proba(X), 1 / 3)


def test_random_states(blobs):
    X, y = blobs
    same = [classifier(random_state=np.random.RandomState(3)).fit(X, y).certificate_.primal for _ in range(2)]
    assert same[0] == same[1]
    assert classifier(random_state=1).fit(X, y).certificate_.primal != same[0]
    assert classifier(random_state=None).fit(X, y).certificate_.holds(1e-3)


def test_numpy_numbers_are_settings(blobs):
    X, y = blobs
    clf = classifier(beta=np.float32(1.0), n_gates=np.int64(10)).fit(X, y)
    assert clf.certificate_.primal == classifier().fit(X, y).certificate_.primal


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "squared"}, "loss"),
        ({"beta": 0.0}, "beta"),
        ({"beta": "big"}, "beta"),
        ({"block": "mpl"}, "block"),
        ({"activation": "tanh"}, "activation"),
        ({"n_gates": 0}, "gate"),
        ({"class_weight": "fair"}, "class_weight"),
        ({"class_weight": {7: 1.0}}, "class_weight"),
        ({"class_weight": {0: -1.0}}, "class_weight: finite numbers that are not negative"),
        ({"class_weight": {0: np.nan}}, "class_weight: finite"),
        ({"tol": 0.0}, "tol"),
        ({"gates": None}, "gates: None is unknown"),
        ({"n_gates": None}, "n_gates: it must be a whole number"),
        ({"gates": np.ones((4, 2)), "fit_intercept": True}, r"shape \(P, 3\), the last number for the column of ones"),
    ],
)
def test_bad_settings_are_named(blobs, settings, message):
    X, y = blobs
    with pytest.raises(ValueError, match=message):
        classifier(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (pn.ProvenClassifier, {"tol": None}, "tol"),
        (pn.ProvenClassifier, {"solver": "adam"}, "method: 'adam' is unknown"),
        (pn.ProvenClassifier, {"max_steps": -1}, "max_steps"),
        (pn.ProvenClassifierCV, {"activation": ["linear", "tanh"]}, "activation: 'tanh'"),
        (pn.ProvenClassifierCV, {"gates": ["gaussian", "betwen"]}, "gates: 'betwen'"),
        (pn.ProvenClassifierCV, {"patience": "a"}, "patience"),
        (pn.ProvenClassifierCV, {"patience": -1}, "patience"),
    ],
)
def test_settings_are_looked_at_before_anything_is_trained(blobs, monkeypatch, kind, settings, message):
    monkeypatch.setattr(kind, "_formulate", lambda *_: pytest.fail("it went to work"))
    with pytest.raises(ValueError, match=message):
        kind(**settings).fit(*blobs)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_labels_that_are_none_are_named(blobs, missing):
    X, y = blobs
    words = np.array(["a", "b", "c"], dtype=object)[y % 3]
    words[4] = missing
    for labels in (words, words.tolist(), pd.Series(words), pd.Series(words, dtype="string")):
        with pytest.raises(ValueError, match=r"y: entry 4 is .*, no label"):
            classifier().fit(X, labels)
    words[4] = 3
    with pytest.raises(ValueError, match="y: some labels are text, others are not, such as 3"):
        classifier().fit(X, words)


def test_bad_data_is_named(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="one class"):
        classifier().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="NaN"):
        classifier().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="sample_weight"):
        classifier().fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        classifier().fit(X[:, :, None], y)
