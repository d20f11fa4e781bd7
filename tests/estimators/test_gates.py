"""Gates in the estimators: by name, as vectors, of a network; found anew in every fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.estimators.base import ProvenEstimator

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
y = (X[:, 0] * X[:, 1] > 0).astype(int)


def classifier(**settings: Any) -> pn.ProvenClassifier:
    return pn.ProvenClassifier(**({"beta": 0.5, "n_gates": 8, "tol": 1e-2} | settings))


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
@pytest.mark.parametrize("gates", ["gaussian", "between", "trained"])
def test_by_name(gates: str, activation: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier(gates=gates, activation=activation, verbose=1).fit(X, y)
    problem = model.solution_.problem
    assert problem.statement.sampler == gates
    assert f"gates  8, {gates}, found in" in capsys.readouterr().out
    assert model.certificate_.holds(1e-2)


def test_vectors_and_networks() -> None:
    vectors = RNG.standard_normal((5, 4))
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    by_gates, by_count = classifier(gates=vectors).fit(X, y), classifier(n_gates=vectors).fit(X, y)
    for model in (by_gates, by_count):
        assert torch.equal(model.solution_.problem.gate_vectors, torch.from_numpy(vectors))
    units = classifier(gates=network).fit(X, y).solution_.problem.gate_vectors
    assert torch.equal(units[:, 3], network[0].bias.double())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gates": "nearby"}, "gates: 'nearby' is unknown"),
        ({"gates": "trained", "n_gates": "all"}, "n_gates: with gates='trained' it must be a whole number"),
        ({"gates": pn.nn.FNet(3, 2)}, "gates: the network is a provenet.nn.FNet"),
    ],
)
def test_wrong_gates_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier(**settings).fit(X, y)


@pytest.mark.parametrize("betas", [3, [2.0, 1.0]])
def test_a_fold_finds_its_own_gates(monkeypatch: pytest.MonkeyPatch, betas: Any) -> None:
    """Gates that look at targets must not see those they are judged by."""
    seen: list[int] = []
    posed = ProvenEstimator._posed

    def watched(self: Any, statement: Any, data: Any, wanted: Any, seed: int) -> Any:
        if wanted.name == "trained":
            seen.append(len(data.X))
        return posed(self, statement, data, wanted, seed)

    monkeypatch.setattr(ProvenEstimator, "_posed", watched)
    model = pn.ProvenClassifierCV(gates="trained", n_gates=6, betas=betas, beta_ratio=0.1, cv=3, tol=1e-2).fit(X, y)
    assert seen == [60, 40, 40, 40]
    assert model.certificate_.holds(1e-2)


def test_ten_samples_are_enough_for_trained_gates() -> None:
    assert classifier(gates="trained").fit(X[:10], y[:10]).certificate_.holds(1e-2)


def test_a_saved_model_says_how_its_gates_were_found(tmp_path: Any) -> None:
    model = classifier(gates="between").fit(X, y)
    pn.save(model, tmp_path / "model")
    loaded = pn.load(tmp_path / "model")
    assert loaded.gates == "between"
    assert loaded.saved_.statement.sampler == "between"
    targets = np.eye(2)[y]
    assert loaded.saved_.problem(X, targets).statement.sampler == "between"
    assert loaded.saved_.certify(X, targets, tol=1e-2).holds(1e-2)
