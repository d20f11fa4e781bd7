"""CVXPY on ReLU programs: exact where it says so, refused elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.gauges import ConeNuclear
from provenet.problem import Problem


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
    assert gauge.cones is not None
    assert float(gauge.cones.slack(found.factors.left, found.factors.gate).min()) >= 0


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


def test_several_outputs_beyond_the_plane_are_refused() -> None:
    with pytest.raises(ValueError, match="in the plane only, and the data have rank 3"):
        pn.solve(problem(15, 3, 2), "cvx")
