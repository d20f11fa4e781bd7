"""What comes back from a model folder is what went in, bit by bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.io import SavedModel, load, save

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3))
LABELS = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
VALUES = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)


def classifier(**settings) -> pn.ProvenClassifier:
    defaults = {"beta": 0.1, "n_gates": 15}
    return pn.ProvenClassifier(**{**defaults, **settings})


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (classifier(), LABELS),
        (classifier(activation="linear", fit_intercept=False), LABELS),
        (classifier(loss="logistic", class_weight={"yes": 2.0, "no": 1.0}), LABELS),
        (classifier(), LABELS.astype(object)),
        (classifier(), np.where(LABELS == "yes", 7, -3)),
        (classifier(), LABELS == "yes"),
        (classifier(n_gates=rng.normal(size=(9, 4)), max_seconds=float("inf")), LABELS),
        (classifier(block=pn.MLP(fit_intercept=True)), LABELS),
        (pn.ProvenRegressor(beta=0.1, n_gates=15), VALUES),
        (pn.ProvenRegressor(beta=0.1, n_gates=15, loss="huber", delta=0.3), VALUES[:, 0]),
        (pn.ProvenRegressor(beta=1e6), VALUES),
        (pn.ProvenRegressorCV(betas=3, cv=2, n_gates=5), VALUES[:, 0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_loaded_estimator_is_the_saved_one(estimator, y, tmp_path):
    estimator.fit(X, y)
    save(estimator, tmp_path / "model")
    loaded = load(tmp_path / "model")

    assert type(loaded) is type(estimator)
    fresh = rng.normal(size=(20, 3))
    answers, expected = loaded.predict(fresh), estimator.predict(fresh)
    assert answers.dtype == expected.dtype
    np.testing.assert_array_equal(answers, expected)
    assert loaded.certificate_ == estimator.certificate_
    assert (loaded.dual_gap_, loaded.n_iter_) == (estimator.dual_gap_, estimator.n_iter_)
    for name in ("classes_", "betas_", "cv_scores_", "beta_"):
        if hasattr(estimator, name):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(estimator, name))
    if hasattr(estimator, "classes_"):
        np.testing.assert_array_equal(loaded.predict_proba(fresh), estimator.predict_proba(fresh))
    for name, value in estimator.get_params().items():
        np.testing.assert_array_equal(loaded.get_params()[name], value)


def test_the_certificate_comes_back_from_the_data(tmp_path):
    fitted = pn.ProvenRegressor(beta=0.01, n_gates=15).fit(X, VALUES)
    loaded = load(save(fitted, tmp_path / "model"))
    problem = loaded.saved_.problem(X, VALUES)
    assert loaded.saved_.data_differences(problem) == []
    assert pn.certify(problem, loaded.network_, tol=fitted.tol) == fitted.certificate_
    torch.testing.assert_close(loaded.saved_.gate_vectors, fitted.solution_.problem.gate_vectors, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("X_", "Y_", "weight", "says"),
    [
        (X[:-1], VALUES[:-1], None, "49 × 3"),
        (X + 1e-12, VALUES, None, "the samples are not"),
        (X, -VALUES, None, "the targets are not"),
        (X, VALUES, np.full(50, 2.0), "the weights are not"),
    ],
)
def test_other_data_are_noticed(X_, Y_, weight, says, tmp_path):
    saved = load(save(pn.ProvenRegressor(beta=0.1, n_gates=5).fit(X, VALUES), tmp_path / "model")).saved_
    (difference,) = saved.data_differences(saved.problem(X_, Y_, weight))
    assert says in difference


def test_solutions_and_networks(tmp_path):
    problem = pn.formulate("mlp", X, VALUES, gates=15, beta=0.1)
    solution = pn.solve(problem, tol=1e-5)
    loaded = load(save(solution, tmp_path / "solution"))
    assert isinstance(loaded, SavedModel)
    assert loaded.certificate == solution.certificate
    assert loaded.run["method"] == solution.method
    inputs = torch.from_numpy(X)
    assert torch.equal(loaded.network(inputs), solution.network()(inputs))
    again = load(save(loaded, tmp_path / "again"))
    assert again.certificate == loaded.certificate

    network = solution.network()
    network.second.data *= 1.5
    own = load(save(network, tmp_path / "network", problem=problem))
    assert own.certificate.primal > solution.certificate.primal
    assert not own.certificate.holds(1e-3)


def test_an_edited_network_never_keeps_its_old_certificate(tmp_path):
    fitted = pn.ProvenRegressor(beta=0.1, n_gates=5).fit(X, VALUES)
    save(fitted, tmp_path / "model")
    fitted.network_.second.data *= 2
    assert not load(save(fitted, tmp_path / "edited")).certificate_.holds(0.1)

    loaded = load(tmp_path / "model")
    loaded.network_.first.data += 1
    with pytest.raises(ValueError, match="changed after it was certified"):
        save(loaded, tmp_path / "edited_too")
    assert not (tmp_path / "edited_too").exists()


def test_source_and_settings_that_cannot_be_written(tmp_path):
    fitted = classifier(random_state=np.random.RandomState(0)).fit(X, LABELS)
    with pytest.warns(UserWarning, match="random_state"):
        save(fitted, tmp_path / "model", source={"features": ["a", "b", "c"]})
    loaded = load(tmp_path / "model")
    assert loaded.random_state == 0
    assert loaded.saved_.source == {"features": ["a", "b", "c"]}
    renamed = load(save(loaded, tmp_path / "renamed", source={"features": ["x", "y", "z"]}))
    assert renamed.saved_.source == {"features": ["x", "y", "z"]}
    assert renamed.saved_.run == loaded.saved_.run


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (classifier(), "not fitted"),
        (pn.nn.MLP.from_weights(torch.ones(1, 2), torch.ones(1, 1)), "problem="),
        ("model", "got str"),
    ],
)
def test_what_cannot_be_saved_is_refused(model, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_model_json_is_readable(tmp_path):
    save(classifier().fit(X, LABELS), tmp_path / "model")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    assert (header["format"], header["version"]) == ("provenet-model", 3)  # of standardised data
    assert header["problem"]["block"] == "mlp"
    assert header["estimator"]["labels"]["classes_"]["values"] == ["no", "yes"]
    assert set(header["files"]) == {"model.safetensors", "certificate.json"}
