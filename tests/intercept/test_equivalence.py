"""The optimum with a free intercept is CVXPY's, which has b as a variable of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.proofs.independent import second_opinion
from provenet.testing.bank import make_targets
from provenet.testing.examples import examples

RNG = np.random.default_rng(0)
X = RNG.standard_normal((14, 2))


def check(problem: Any, tol: float = 1e-5) -> None:
    problem = problem.with_beta(0.1 * problem.beta_max)
    best = pn.solve(problem, "cvx", tol=1e-6).certificate
    solution = pn.solve(problem, tol=tol)
    found = solution.certificate
    assert found.relative_gap <= tol
    assert found.primal == pytest.approx(best.primal, rel=2 * tol)
    assert found.dual <= best.primal * (1 + 1e-9)
    verdict = second_opinion(problem, solution.network(), theta=found.theta)
    assert verdict.primal == pytest.approx(found.primal, rel=1e-9)
    assert verdict.dual <= best.primal * (1 + 1e-9)
    if verdict.exact:
        assert verdict.dual == pytest.approx(found.dual, rel=1e-7)


@pytest.mark.parametrize("activation", ["linear", "gated_relu", "relu"])
@pytest.mark.parametrize(("loss", "outputs"), [("squared", 1), ("softmax", 3), ("logistic", 1), ("huber", 2)])
def test_mlp(loss: str, outputs: int, activation: str) -> None:
    if activation == "relu" and outputs > 1:
        pytest.skip("CVXPY's cones have one output")
    Y = make_targets(np.random.default_rng(1), loss, (14,), outputs) + (3 if loss in ("squared", "huber") else 0)
    weight = np.random.default_rng(2).uniform(0.1, 2, 14)
    check(pn.formulate("mlp", X, Y, activation, 4, loss, 1.0, fit_intercept="free", sample_weight=weight))


@pytest.mark.parametrize("readout", ["mean", "tokens"])
@pytest.mark.parametrize("example", [e for e in examples() if e.name != "mlp"], ids=str)
def test_blocks(example: Any, readout: str) -> None:
    if readout not in example.readouts:
        pytest.skip("one output a sample")
    loss = "squared" if readout == "tokens" else "softmax"
    rng, n = np.random.default_rng(3), 8
    tokens = (example.sample[0],) if readout == "tokens" else ()
    outputs = max(example.outputs, 2)
    if readout == "mean" and example.outputs < 2:
        loss = "squared"
        outputs = example.outputs
    Y = make_targets(rng, loss, (n, *tokens), outputs) + (2 if loss == "squared" else 0)
    mask = example.mask(n, 0)
    sampled = example.samples(n, 0)
    check(
        pn.formulate(example.block, sampled, Y, "gated_relu", 2, loss, 1.0, readout, mask=mask, fit_intercept="free"),
        tol=1e-4,
    )


def test_a_free_intercept_beats_a_penalised_one() -> None:
    y = X[:, :1] + 100
    plain, free = (
        pn.solve(pn.formulate("mlp", X, y, gates=4, beta=0.1, fit_intercept=how), tol=1e-6) for how in (True, "free")
    )
    assert free.certificate.primal < 0.1 * plain.certificate.primal
    again = pn.solve(pn.formulate("mlp", X, y - 100, gates=4, beta=0.1, fit_intercept="free"), tol=1e-6)
    assert again.certificate.primal == pytest.approx(free.certificate.primal, rel=1e-5), "shifts of y cost nothing"


def test_the_intercepts_equation() -> None:
    """As with any intercept without penalty, probabilities add up to the ones there are."""
    y = (X[:, 0] + 0.7 * RNG.standard_normal(14) > 0.3).astype(float)
    problem = pn.formulate(pn.MLP(), X, y, "linear", loss="logistic", beta=0.3, fit_intercept="free")
    network = pn.solve(problem, tol=1e-9).network()
    probability = network(problem.X).sigmoid().detach().numpy()[:, 0]
    assert probability.sum() == pytest.approx(y.sum(), rel=1e-9)


@pytest.mark.parametrize("method", ["admm", "apg", "subspace", "bm", "lbfgs", "ipm", "active_ipm"])
@pytest.mark.parametrize("loss", ["squared", "softmax", "huber"])
def test_methods_agree(method: str, loss: str) -> None:
    Y = make_targets(np.random.default_rng(4), loss, (14,), 3) + (1 if loss != "softmax" else 0)
    problem = pn.formulate("mlp", X, Y, gates=4, loss=loss, beta=1.0, fit_intercept="free")
    problem = problem.with_beta(0.1 * problem.beta_max)
    if "ipm" in method and loss != "squared":
        with pytest.raises(ValueError, match="squared loss"):
            pn.solve(problem, method)
        return
    found = pn.solve(problem, method, tol=1e-3, max_seconds=5)
    assert found.certificate.relative_gap <= 1e-3
    assert found.certificate.primal == pytest.approx(pn.solve(problem, tol=1e-5).certificate.primal, rel=2e-3)
