"""CVXPY on ReLU programs: exact where it says so, refused elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.gauges import ConeNuclear
from provenet.problem import Problem
from provenet.solvers.interior.copositive.walls import Walls
from provenet.solvers.reference.cvx import CVX


def problem(n: int, d: int, c: int, loss: str = "squared", share: float = 0.05, **more: object) -> Problem:
    rng = np.random.default_rng(n + d + c)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, c))
    if loss == "softmax":
        Y = Y.argmax(1)
    posed = pn.formulate("mlp", X, Y, activation="relu", loss=loss, **({"gates": 8} | more))
    return posed.with_beta(share * posed.beta_max)


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((15, 3, 1), {}),
        ((12, 2, 3), {"gates": "all"}),
        ((12, 2, 2), {"gates": "all", "loss": "huber", "share": 0.3}),
        ((8, 1, 2), {"gates": "all"}),
    ],
)
def test_certified_and_exactly_feasible(shape: tuple[int, int, int], more: dict[str, object]) -> None:
    posed = problem(*shape, **more)
    found = pn.solve(posed, "cvx", tol=1e-7)
    assert -1e-11 <= found.certificate.relative_gap <= 1e-7
    gauge = posed.program.gauge
    assert isinstance(gauge, ConeNuclear)
    assert float(gauge.region.slack(found.factors.left, found.factors.gate).min()) >= 0


def test_softmax_in_the_plane() -> None:
    found = pn.solve(problem(10, 2, 3, loss="softmax", gates="all"), "cvx", tol=1e-5)
    assert -1e-11 <= found.certificate.relative_gap <= 1e-5


def test_the_value_is_the_networks_own_loss() -> None:
    posed = problem(12, 2, 3, gates="all")
    found = pn.solve(posed, "cvx", tol=1e-7)
    network = found.network()
    out = network(posed.X).detach()
    own = float(posed.loss.value(out)) + posed.beta * float(network.penalty().detach())
    assert found.certificate.primal == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_several_outputs_with_few_facets_in_space(seed: int) -> None:
    """Four rows in three or four dimensions, some of them twice: the semidefinite program is exact (slip 12)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 3 + seed % 2))
    X = np.concatenate([X, 2 * X[:2]]) if seed % 3 else X
    posed = pn.formulate("mlp", X, rng.standard_normal((len(X), 2)), activation="relu", gates="all", beta=1.0)
    posed = posed.with_beta((0.3, 0.03)[seed % 2] * posed.beta_max)
    found = pn.solve(posed, "cvx", tol=1e-7)
    assert -1e-11 <= found.certificate.relative_gap <= 1e-7
    other = pn.solve(posed, "copositive", tol=1e-6).certificate
    assert found.certificate.primal == pytest.approx(other.primal, rel=2e-6)


def test_several_outputs_with_five_facets_are_refused() -> None:
    with pytest.raises(
        ValueError, match="no cone has more than four rows that are not redundant; the data have rank 3"
    ):
        pn.solve(problem(15, 3, 2), "cvx")


def test_a_refusal_is_quick_however_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan asks of every program: neither pairs of rows are made, nor more than one cone looked at."""
    rng = np.random.default_rng(0)
    problem = pn.formulate("mlp", rng.standard_normal((400, 8)), rng.standard_normal((400, 2)), "relu", 20)
    looked: list[int] = []
    unique = np.unique
    monkeypatch.setattr(np, "unique", lambda *a, **k: looked.append(1) or unique(*a, **k))
    monkeypatch.setattr(Walls, "of", lambda cones: pytest.fail("all pairs of rows were made"))
    assert "no cone has more than four rows" in str(CVX().refuses(problem.program))
    assert len(looked) <= 1
