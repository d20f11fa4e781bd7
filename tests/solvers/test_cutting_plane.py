"""Cutting planes on the dual, against Frank–Wolfe on random small problems."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.losses import Squared
from provenet.solvers import Status
from provenet.solvers.cones.analytic_centre import AnalyticCentre, _Centre
from provenet.solvers.cones.cutting_plane import CuttingPlane
from provenet.testing.bank import make_targets


@pytest.mark.parametrize("seed", range(10))
def test_equals_frank_wolfe_on_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, p, c = int(rng.integers(4, 20)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, c))
    gates = "all" if p <= 2 else 20
    problem = pn.formulate("mlp", X, Y, "relu", gates=gates, loss="squared", beta=1.0)
    problem = problem.with_beta(float(rng.choice([0.5, 0.1, 0.02])) * problem.beta_max)
    planes = pn.solve(problem, "cutting_plane", tol=1e-6)
    wolfe = pn.solve(problem, "frank_wolfe", tol=1e-6)
    assert planes.status is Status.SOLVED
    assert wolfe.status is Status.SOLVED
    assert planes.certificate.primal == pytest.approx(wolfe.certificate.primal, rel=2e-6)
    assert planes.certificate.dual <= wolfe.certificate.primal * (1 + 1e-12)
    assert wolfe.certificate.dual <= planes.certificate.primal * (1 + 1e-12)
    cones = problem.program.gauge.region
    assert bool((cones.slack(planes.factors.left, planes.factors.gate) >= 0).all())


@pytest.mark.parametrize("level", [0.3, 1.0])
def test_sixty_points_at_any_level(level: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 2))
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss="squared", beta=1.0)
    solution = pn.solve(problem.with_beta(0.1 * problem.beta_max), CuttingPlane(level=level), tol=1e-6)
    assert solution.status is Status.SOLVED
    assert solution.certificate.scope == "all_arrangements"


def test_weighted_samples() -> None:
    rng = np.random.default_rng(1)
    X, Y, weight = rng.standard_normal((15, 2)), rng.standard_normal((15, 2)), rng.uniform(0.2, 3.0, 15)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss="squared", beta=1.0, sample_weight=weight)
    problem = problem.with_beta(0.2 * problem.beta_max)
    planes, wolfe = (pn.solve(problem, method, tol=1e-6) for method in ("cutting_plane", "frank_wolfe"))
    assert planes.status is Status.SOLVED
    assert planes.certificate.primal == pytest.approx(wolfe.certificate.primal, rel=2e-6)


def test_a_block_whose_cones_have_no_table() -> None:
    rng = np.random.default_rng(3)
    problem = pn.formulate("fno", rng.standard_normal((5, 4, 2)), rng.standard_normal((5, 1)), "relu", 8, beta=1.0)
    problem = problem.with_beta(0.2 * problem.beta_max)
    planes, bm = (pn.solve(problem, method, tol=1e-5) for method in ("cutting_plane", "bm"))
    assert planes.status is Status.SOLVED
    assert planes.certificate.primal == pytest.approx(bm.certificate.primal, rel=2e-5)
    region = problem.program.gauge.region
    assert bool((region.slack(planes.factors.left, planes.factors.gate) >= 0).all())


@pytest.mark.parametrize(
    ("loss", "outputs", "bias"), [("softmax", 3, False), ("logistic", 1, "free"), ("huber", 1, False)]
)
def test_other_losses(loss: str, outputs: int, bias: bool | str) -> None:
    """Against CVXPY, where its cones have one output, and Frank–Wolfe."""
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((8, 2)), make_targets(rng, loss, (8,), outputs)
    problem = pn.formulate("mlp", X, Y, "relu", "all", loss, 1.0, fit_intercept=bias)
    problem = problem.with_beta(0.1 * problem.beta_max)
    planes = pn.solve(problem, "cutting_plane", tol=1e-4)
    other = pn.solve(problem, "cvx" if outputs == 1 else "frank_wolfe", tol=1e-5)
    assert planes.status is Status.SOLVED
    assert planes.method == "cutting_plane"
    assert planes.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-4)
    assert planes.certificate.dual <= other.certificate.primal * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_papers_own_rule_by_analytic_centres(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((15, 3 - seed % 2)), rng.standard_normal((15, 2))
    weight = rng.uniform(0.2, 3.0, 15) if seed > 1 else None
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss="squared", beta=1.0, sample_weight=weight)
    problem = problem.with_beta(0.1 * problem.beta_max)
    centre, wolfe = pn.solve(problem, AnalyticCentre(), tol=1e-6), pn.solve(problem, "frank_wolfe", tol=1e-6)
    assert centre.status is Status.SOLVED
    assert centre.method == "analytic_centre"
    assert centre.certificate.primal == pytest.approx(wolfe.certificate.primal, rel=2e-6)


def test_an_analytic_centre_is_where_its_barrier_is_flat() -> None:
    draw = torch.Generator().manual_seed(0)
    Y, cuts = torch.randn(4, 2, generator=draw, dtype=torch.float64), torch.randn(9, 2, 8, generator=draw).double()
    loss = Squared(Y, torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64))
    centre = _Centre(loss, cuts, radius=1.0, least=-0.5)
    theta = centre.found(torch.zeros(8, dtype=torch.float64)).requires_grad_()
    worth = -loss.conjugate(theta.view(4, 2)) + 0.5
    barrier = -worth.log() - (1 - (cuts @ theta).square().sum(1)).log().sum()
    (slope,) = torch.autograd.grad(barrier, theta)
    assert float(worth.detach()) > 0
    assert float(slope.abs().max()) < 1e-3
    assert float(barrier.detach()) < centre._value(torch.zeros(8, dtype=torch.float64)) - 0.1


def test_analytic_centres_are_of_the_squared_loss() -> None:
    rng = np.random.default_rng(2)
    problem = pn.formulate("mlp", rng.standard_normal((8, 2)), np.arange(8) % 3, "relu", "all", "softmax", 0.1)
    with pytest.raises(ValueError, match="squared loss"):
        pn.solve(problem, AnalyticCentre())


def test_a_level_is_a_share() -> None:
    with pytest.raises(ValueError, match="level"):
        CuttingPlane(level=0.0)
