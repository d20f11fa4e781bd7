"""β as a number or as a share of β_max."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.beta import Beta, parse_beta

X = np.random.default_rng(0).standard_normal((40, 3))
y = X[:, 0] * X[:, 1] > 0
QUICK = {"gates": "gaussian", "n_gates": 6, "tol": 1e-3}


def test_what_is_said_is_what_is_meant() -> None:
    assert parse_beta(0.5) == parse_beta("0.5") == Beta(0.5)
    assert parse_beta(np.float32(0.5)) == Beta(0.5)
    assert parse_beta("0.01max") == Beta(0.01, "max")
    assert parse_beta("5e-4mean", ("mean", "max")) == Beta(5e-4, "mean")
    assert Beta(5e-4, "mean").summed(200, lambda: 7.0) == pytest.approx(0.1)
    for said in (0.1, "0.1max", "1e-3max", 1 / 3):
        assert parse_beta(parse_beta(said).said) == parse_beta(said)


@pytest.mark.parametrize(
    "said", ["", "max", "lots", "1mean", "0max", "-1", "nanmax", "infmax", 0, -1.0, True, None, [0.1]]
)
def test_what_is_no_beta_is_refused(said) -> None:
    with pytest.raises(ValueError, match=r"^beta: "):
        pn.ProvenClassifier(beta=said, **QUICK).fit(X, y)


@pytest.mark.parametrize("activation", ["gated_relu", "linear", "relu"])
def test_a_share_is_of_the_problem_with_its_gates(activation: str) -> None:
    fitted = pn.ProvenClassifier(beta="0.2max", activation=activation, **QUICK).fit(X, y)
    problem = fitted.solution_.problem
    assert fitted.beta_ == problem.beta == pytest.approx(0.2 * problem.beta_max)
    same = pn.ProvenClassifier(beta=fitted.beta_, activation=activation, **QUICK).fit(X, y)
    assert same.certificate_.primal == pytest.approx(fitted.certificate_.primal, rel=1e-3)
    assert fitted.get_params()["beta"] == "0.2max"


def test_nothing_to_fit_has_no_share() -> None:
    """β_max is zero, and every β as good as any."""
    fitted = pn.ProvenRegressor(beta="0.1max", **QUICK).fit(X, np.zeros(40))
    assert fitted.beta_ == 0.1
    assert not fitted.predict(X).any()


def test_beta_max_of_relu_is_that_of_the_gates_alone() -> None:
    """With several outputs and more than three features; else it is that of the cones."""
    rng = np.random.default_rng(1)
    for features, outputs in ((3, 1), (3, 3), (5, 1), (5, 3)):
        samples, Y = rng.standard_normal((40, features)), rng.standard_normal((40, outputs))
        relu, gated = (pn.formulate("mlp", samples, Y, kind, 8, beta=1.0) for kind in ("relu", "gated_relu"))
        assert (relu.beta_max == pytest.approx(gated.beta_max)) == (features > 3 and outputs > 1)
        assert relu.beta_max <= gated.beta_max * (1 + 1e-9)
        assert pn.solve(relu.with_beta(1.001 * relu.beta_max)).factors.n_neurons == 0


def test_a_search_takes_shares() -> None:
    fitted = pn.ProvenClassifierCV(activation="gated_relu", betas=["0.02max", "0.2max"], cv=2, **QUICK).fit(X, y)
    assert fitted.betas_ == pytest.approx(np.array([0.2, 0.02]) * fitted.solution_.problem.beta_max)
    for wrong in ([], ["lots"], "0.1max", [0.0], True, None):
        with pytest.raises(ValueError, match=r"^betas: give a number"):
            pn.ProvenClassifierCV(betas=wrong, cv=2, **QUICK).fit(X, y)


def test_a_search_over_gates_and_activations() -> None:
    """On corners a linear network can only guess; each choice has β of its own."""
    search = pn.ProvenClassifierCV(
        betas=3, cv=2, activation=["linear", "gated_relu"], gates=["gaussian", "between"], n_gates=12, tol=1e-2
    )
    fitted = search.fit(X, y)
    tried = [(candidate.activation, candidate.gates) for candidate in fitted.candidates_]
    assert tried == [("linear", "gaussian"), ("gated_relu", "gaussian"), ("gated_relu", "between")]
    assert fitted.activation_ == fitted.solution_.problem.activation == "gated_relu"
    assert fitted.gates_ == fitted.solution_.problem.statement.sampler
    best = max(fitted.candidates_, key=lambda candidate: candidate.score)
    assert fitted.cv_scores_.mean(0).max() == best.score
    assert fitted.beta_ in best.betas
    assert search.activation == ["linear", "gated_relu"]  # settings are as they were given
