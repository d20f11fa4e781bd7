"""The independent checker on ReLU networks: it agrees with the certificate, and no neuron pulls harder than it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import Cones
from provenet.cones.search import climb
from provenet.proofs.independent import second_opinion
from provenet.verify import Data, Statement, Verdict, Weights, verify
from provenet.verify.cones import cone_bound, is_reached, projected_length, sectors
from provenet.verify.narrow import narrow_bound


def judged(X: Any, Y: Any, weights: Any, loss: str = "squared", **scope: Any) -> Verdict:
    return verify(Data(X, Y), Weights(*weights), Statement(loss, 0.5, relu=True, **scope))


def solved(d: int, c: int, gates: Any, loss: str = "squared", beta: float = 0.5) -> tuple[Any, Any, Any, Any, Any]:
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((20, d)), draw.standard_normal((20, c))
    if loss == "softmax":
        Y = np.eye(c)[np.arange(20) % c]
    problem = pn.formulate("mlp", X, Y, "relu", gates=gates, loss=loss, beta=beta)
    solution = pn.solve(problem, tol=1e-7)
    network: Any = solution.network()
    return X, Y, problem, solution.certificate, (network.first.detach().numpy(), network.second.detach().numpy())


@pytest.mark.parametrize(("d", "c", "gates"), [(2, 3, "all"), (2, 1, "all"), (3, 1, 30), (3, 2, 30), (5, 1, 20)])
def test_it_agrees_with_the_certificate(d: int, c: int, gates: Any) -> None:
    X, Y, problem, certificate, weights = solved(d, c, gates)
    found = judged(X, Y, weights, gate_vectors=problem.gate_vectors.numpy())
    assert found.primal == pytest.approx(certificate.primal, rel=1e-12)
    assert found.dual == pytest.approx(certificate.dual, rel=1e-6)
    assert found.polar_max == pytest.approx(certificate.polar_max, rel=1e-6)
    assert found.relative_gap <= 1e-6


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_all_arrangements_of_the_plane_by_its_own_sweep(loss: str) -> None:
    X, Y, problem, certificate, weights = solved(2, 3, "all", loss)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    found = {tuple(pattern) for pattern in sectors(rows) @ X.T > 0}
    assert found - {(False,) * 20} == {tuple(pattern) for pattern in problem.patterns.tolist()} - {(False,) * 20}
    verdict = judged(X, Y, weights, loss, all_arrangements=True)
    assert verdict.relative_gap <= 1e-6
    assert verdict.dual == pytest.approx(certificate.dual, rel=1e-6)


@pytest.mark.parametrize(("p", "q"), [(2, 1), (2, 3), (3, 2), (3, 4), (4, 1), (5, 3)])
def test_no_direction_of_the_cone_pulls_harder(p: int, q: int) -> None:
    draw = np.random.default_rng(p + q)
    for _ in range(30):
        G, K = draw.standard_normal((p, q)), draw.standard_normal((6, p))
        K /= np.linalg.norm(K, axis=1, keepdims=True)
        K = np.where((K @ draw.standard_normal(p) >= 0)[:, None], K, -K)
        u = draw.standard_normal((20_000, p))
        u = u[(u @ K.T >= 0).all(axis=1)]
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        bound = cone_bound(G, K)
        pulls = np.linalg.norm(u @ G, axis=1) if q > 1 else (u @ G)[:, 0]
        if q == 1:
            bound = projected_length(G[:, 0], K)
        assert (pulls <= bound * (1 + 1e-9)).all()
        if len(u) > 2000 and p <= 3:
            assert bound <= max(float(pulls.max()), 0.0) * 1.02 + 0.05  # and it is tight


def test_a_network_that_is_not_optimal_is_not_proven() -> None:
    X, Y, problem, certificate, (first, second) = solved(2, 3, "all")
    vectors = problem.gate_vectors.numpy()
    worse = judged(X, Y, (1.1 * first, second), gate_vectors=vectors)
    assert worse.primal > certificate.primal
    assert worse.dual <= certificate.primal
    assert worse.relative_gap > 1e-4
    zero = judged(X, Y, (first[:0], second[:0]), gate_vectors=vectors)
    assert zero.primal == pytest.approx((Y**2).sum() / 2)


def test_all_arrangements_beyond_the_plane_have_a_rough_bound() -> None:
    X, Y, _, _, weights = solved(3, 2, 5)
    rough = judged(X, Y, weights, all_arrangements=True)
    *_, every, _ = solved(3, 2, "all")
    assert not rough.exact
    assert rough.dual <= every.dual
    assert rough.polar_max >= every.polar_max


def test_wrong_use() -> None:
    X, Y, _, _, (first, second) = solved(3, 1, 5)
    with pytest.raises(ValueError, match="gates: a ReLU neuron is its own gate"):
        judged(X, Y, (first, second, first))
    with pytest.raises(ValueError, match="all_arrangements: it goes with relu"):
        Statement("squared", 0.5, all_arrangements=True)
    with pytest.raises(ValueError, match="give one of the two"):
        judged(X, Y, (first, second), all_arrangements=True, gate_vectors=first)


@pytest.mark.parametrize(("rank", "d"), [(2, 5), (3, 6)])
def test_rows_of_low_rank_are_judged_where_they_lie(rank: int, d: int) -> None:
    draw = np.random.default_rng(rank)
    rows = draw.standard_normal((12, rank)) @ draw.standard_normal((rank, d))
    rows *= np.where(rows @ draw.standard_normal(d) >= 0, 1, -1)[:, None]  # a cone with an inside
    K = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    G = rows.T @ draw.standard_normal((12, 3))
    bound = cone_bound(G, K)
    u = draw.standard_normal((200_000, rank)) @ np.linalg.svd(rows)[2][:rank]
    u = u[(u @ K.T >= 0).all(1)]
    reached = np.linalg.norm(u @ G, axis=1) / np.linalg.norm(u, axis=1)
    assert len(reached) > 10
    assert reached.max() <= bound * (1 + 1e-12)
    assert reached.max() >= 0.9 * bound
    assert is_reached(G, K, bound)


def test_a_rough_bound_is_called_rough() -> None:
    """Several outputs in four dimensions have the spectral norm, which is the number only for a u of the cone."""
    X, Y, problem, certificate, weights = solved(4, 3, 12)
    found = judged(X, Y, weights, gate_vectors=problem.gate_vectors.numpy())
    assert found.primal == pytest.approx(certificate.primal, rel=1e-12)
    assert found.polar_max > certificate.polar_max
    assert not found.exact
    inside = np.diag([3.0, 2.0, 1.0, 0.5])
    assert is_reached(inside, np.eye(4), cone_bound(inside, np.eye(4)))
    assert not is_reached(np.ones((4, 1)) @ np.ones((1, 2)) - 2 * np.eye(4, 2), np.eye(4), 1e9)


@pytest.mark.parametrize(("n", "p", "c"), [(80, 5, 4), (60, 4, 7)])
def test_narrow_cones_with_many_outputs_are_bounded_closely(n: int, p: int, c: int) -> None:
    """Never below a point of the cone, and within a per mille of what a climb finds, where the spectral norm is not."""
    draw = np.random.default_rng(n)
    X, theta = draw.standard_normal((n, p)), draw.standard_normal((n, c))
    loose = 0
    for _ in range(4):
        inside = draw.standard_normal(p)
        K = X * np.where(X @ inside >= 0, 1.0, -1.0)[:, None]
        K = K / np.linalg.norm(K, axis=1, keepdims=True)
        G = (X * (X @ inside >= 0)[:, None]).T @ theta
        cones = Cones.of(torch.from_numpy(X), torch.from_numpy(X @ inside >= 0)[None], torch.from_numpy(inside)[None])
        reached = float(climb(cones, torch.from_numpy(G)[None]).value)
        bound = narrow_bound(G, K, inside, 0.0)
        assert reached * (1 - 1e-12) <= bound <= 1.001 * reached
        loose += np.linalg.norm(G, 2) > 1.05 * reached
    assert loose > 0


def test_both_judges_prove_a_network_with_seven_classes() -> None:
    draw = np.random.default_rng(5)
    X = draw.standard_normal((90, 4))
    y = np.abs(X @ draw.standard_normal((4, 7))).argmax(1)
    problem = pn.formulate("mlp", X, np.eye(7)[y], activation="relu", gates=8, loss="softmax", beta=2.0)
    solution = pn.solve(problem, tol=1e-3)
    assert solution.certificate.holds(1e-3)
    verdict = second_opinion(problem, solution.network(), theta=solution.certificate.theta)
    assert verdict.relative_gap <= 2e-3
    assert not verdict.exact
