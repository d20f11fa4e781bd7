"""ZCA whitening as part of an estimator: kept with the model, applied to new data, refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import KFold

import provenet as pn


def data(n: int = 8, d: int = 12) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((n, d)) * np.arange(1, d + 1)
    return X, np.arange(n) % 2


def test_whitened_data_are_what_the_network_sees(tmp_path: Path) -> None:
    X, y = data()
    model = pn.ProvenClassifier(beta=0.1, n_gates=5, fit_intercept=False, whiten=True).fit(X, y)
    seen = model.solution_.problem.X
    assert torch.allclose(seen @ seen.T, torch.eye(8, dtype=torch.float64), atol=1e-9)
    assert np.array_equal(model.predict(X), y)
    new = X + 0.01
    logits = model.network_(model.whitening_.apply(new)).detach().numpy()
    assert np.allclose(model.decision_function(new), logits[:, 1] - logits[:, 0])
    assert clone(model).whiten
    pn.save(model, tmp_path / "model")
    again = pn.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(new), model.predict_proba(new))


def test_more_samples_than_features_are_refused() -> None:
    X, y = data(20, 5)
    with pytest.raises(ValueError, match="n ≤ d"):
        pn.ProvenClassifier(whiten=True).fit(X, y)
    with pytest.raises(ValueError, match="n ≤ d"):
        pn.ProvenRegressor(whiten=True).fit(X, y.astype(float))


def test_every_fold_of_a_search_has_a_whitening_of_its_own(tmp_path: Path) -> None:
    X, _ = data()
    y = X[:, 0] - X[:, 1]
    settings = {"gates": "gaussian", "n_gates": 5, "fit_intercept": False, "whiten": True, "tol": 1e-7}
    search = pn.ProvenRegressorCV(betas=3, cv=2, cv_tol=1e-7, **settings).fit(X, y)
    seen = search.solution_.problem.X
    assert torch.allclose(seen @ seen.T, torch.eye(8, dtype=torch.float64), atol=1e-9)
    for scores, (train, test) in zip(search.cv_scores_, KFold(2).split(X), strict=True):
        for score, beta in zip(scores, search.betas_, strict=True):
            alone = pn.ProvenRegressor(beta=beta / 2, **settings).fit(X[train], y[train])
            assert score == pytest.approx(alone.score(X[test], y[test]), abs=1e-3)
    pn.save(search, tmp_path / "model")
    again = pn.load(tmp_path / "model")
    assert again.whiten
    assert np.array_equal(again.predict(X + 0.01), search.predict(X + 0.01))
    with pytest.raises(ValueError, match="n ≤ d"):
        pn.ProvenRegressorCV(whiten=True).fit(X[:, :5], y)
