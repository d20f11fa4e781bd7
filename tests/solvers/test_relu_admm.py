"""ADMM on pairs of gates and signs: any loss, blocks whose neurons have one output weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import Cones
from provenet.gauges.cones.norm import ConeNorm
from provenet.operators import MLPOperator
from provenet.operators.wrappers.signed import SignedOperator
from provenet.solvers import Status
from provenet.testing import check_operator


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def at(problem: pn.Problem, share: float) -> pn.Problem:
    return problem.with_beta(share * problem.beta_max)


def feasible(solution: pn.Solution) -> bool:
    cones: Any = solution.problem.program.gauge
    return bool((cones.region.slack(solution.factors.left, solution.factors.gate) >= 0).all())


@pytest.mark.parametrize("seed", range(12))
def test_random_problems_from_easy_to_hard(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, p = int(random.integers(10, 80)), int(random.integers(2, 11))
    X, Y = random.standard_normal((n, p)), random.standard_normal((n, 1))
    problem = at(pn.formulate("mlp", X, Y, "relu", gates=20, beta=1.0), 0.5 ** random.uniform(1, 10))
    solution = pn.solve(problem, "admm", tol=1e-4)
    best = pn.solve(problem, "working_set", tol=1e-8)
    assert solution.status is Status.SOLVED
    assert solution.certificate.dual <= best.certificate.primal * (1 + 1e-12)
    assert best.certificate.dual * (1 - 1e-12) <= solution.certificate.primal <= best.certificate.primal * (1 + 1e-4)
    assert feasible(solution)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_other_losses(loss: str) -> None:
    Y = np.random.default_rng(1).integers(0, 2, 25) if loss == "logistic" else 3 * normal(25, 1, seed=1)
    problem = at(pn.formulate("mlp", normal(25, 3), Y, "relu", gates=20, loss=loss, beta=1.0), 0.1)
    solution = pn.solve(problem, "admm", tol=1e-5)
    assert solution.status is Status.SOLVED
    assert feasible(solution)


@pytest.mark.parametrize(
    ("block", "X", "readout"),
    [
        (pn.CNN(kernel=2, stride=2, pool=1), normal(8, 1, 4, 4), "mean"),
        ("fnet", normal(6, 9, 3), "mean"),
        ("poolformer", normal(6, 9, 3), "tokens"),
        ("fno", normal(6, 4, 3), "mean"),
    ],
)
def test_other_blocks(block: Any, X: np.ndarray, readout: str) -> None:
    Y = normal(*X.shape[:2], 1, seed=1) if readout == "tokens" else normal(len(X), 1, seed=1)
    problem = at(pn.formulate(block, X, Y, "relu", gates=15, readout=readout, beta=1.0), 0.1)
    solution = pn.solve(problem, "admm", tol=1e-5)
    assert solution.status is Status.SOLVED
    assert feasible(solution)


def test_weighted_samples_and_a_warm_start() -> None:
    weight = np.random.default_rng(2).uniform(0.2, 3.0, 20)
    problem = pn.formulate("mlp", normal(20, 3), normal(20, 1, seed=1), "relu", 15, beta=1.0, sample_weight=weight)
    problem = at(problem, 0.05)
    first = pn.solve(problem, "admm", tol=1e-6)
    again = pn.solve(problem, "admm", tol=1e-5, start=first)
    assert first.status is again.status is Status.SOLVED
    assert again.steps <= 10 < first.steps


def test_what_it_cannot_take_is_named() -> None:
    with pytest.raises(ValueError, match="only where a neuron has one output weight"):
        pn.solve(pn.formulate("mlp", normal(10, 2), normal(10, 2), "relu", 5, beta=0.1), "admm")
    with pytest.raises(ValueError, match="no kernel"):
        pn.solve(pn.formulate(pn.BFNO(groups=2), normal(4, 5, 2), normal(4, 2), "relu", 5, beta=0.1), "admm")


def test_a_gate_with_both_signs_is_an_operator() -> None:
    X = torch.from_numpy(normal(6, 3))
    check_operator(SignedOperator.both(MLPOperator(X, X @ torch.from_numpy(normal(3, 4, seed=1)) >= 0, 1)))


def test_the_prox_of_lengths_in_cones_satisfies_moreau() -> None:
    """z = prox(z) + g with γ°(g) ≤ step, and ⟨g, prox(z)⟩ = step·γ(prox(z)); warm starts change nothing."""
    rows, inside = torch.from_numpy(normal(30, 4)), torch.from_numpy(normal(50, 4, seed=1))
    gauge = ConeNorm(Cones.of(rows, inside @ rows.T >= 0, inside))
    for seed in range(3):
        z = torch.from_numpy(normal(50, 4, 1, seed=2 + seed))
        near, length = gauge.prox(z, 0.2)
        rest = z - near
        assert float(gauge.polar(rest).upper.max()) <= 0.2 + 1e-10
        assert torch.allclose((rest * near).sum((1, 2)), 0.2 * length, atol=1e-10)
        assert torch.allclose(gauge.values(near), length, atol=1e-12)
        assert 0 < int((length > 0).sum()) < 50
    assert bool((gauge.values(-inside[:, :, None]) == torch.inf).all())
