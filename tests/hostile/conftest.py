"""Every network that comes out of a hostile test is checked by the independent checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.proofs.independent import second_opinion
from provenet.verify import Data


def fit_and_check(
    X: Any, Y: Any, beta: float | None = None, ratio: float = 0.1, solve: dict[str, Any] | None = None, **settings: Any
) -> pn.Solution:
    """Formulate, solve, and check that the weights are finite and that the certificate claims nothing `verify` denies.

    β is ``ratio``·β_max unless given.
    """
    settings = {"block": "mlp", "gates": 8} | settings
    problem = pn.formulate(settings.pop("block"), X, Y, beta=1.0 if beta is None else beta, **settings)
    if beta is None and problem.beta_max > 0:
        problem = problem.with_beta(ratio * problem.beta_max)
    solution = pn.solve(problem, **({"tol": 1e-5} | (solve or {})))
    check_honest(solution, X, Y, settings.get("sample_weight"), settings.get("mask"))
    return solution


def check_honest(solution: pn.Solution, X: Any, Y: Any, sample_weight: Any = None, mask: Any = None) -> None:
    problem, network, certificate = solution.problem, solution.network(), solution.certificate
    assert bool(torch.isfinite(network.first).all())
    assert bool(torch.isfinite(network.second).all())
    arrays = (np.asarray(a, dtype=np.float64) for a in (X, Y))
    verdict = second_opinion(problem, network, Data(*arrays, sample_weight, mask), certificate.theta)
    if certificate.primal != 0:
        assert verdict.primal == pytest.approx(certificate.primal, rel=1e-9)
        # a large gap hangs on residuals that, at a tiny β, are rounding in both
        assert verdict.relative_gap == pytest.approx(certificate.relative_gap, abs=1e-9, rel=1e-4)
    else:
        assert verdict.primal == 0
        assert verdict.dual == 0
    assert (solution.status is pn.Status.SOLVED) == certificate.holds(certificate.tol)


@pytest.fixture
def fit() -> Callable[..., pn.Solution]:
    return fit_and_check


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((20, 3))


@pytest.fixture
def Y(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    return np.maximum(X @ rng.standard_normal((3, 2)), 0) + rng.standard_normal((20, 2))
