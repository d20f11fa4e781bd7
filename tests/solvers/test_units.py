"""What a user sets on a method is in the user's units, whatever units the program has."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.cones.classic import ClassicFrankWolfe
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.first_order import FirstOrderBM
from provenet.solvers.stacks.admm import ADMM

SCALES = [(1.0, 1.0), (8.0, 1.0), (8.0, 64.0), (0.01, 1e3)]


def data(x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return x * rng.standard_normal((12, 3)), y * rng.standard_normal((12, 2))


@pytest.mark.parametrize(("x", "y"), SCALES)
def test_gradient_descent_is_the_users(x: float, y: float) -> None:
    """BM C.1's recipe, step by step, on the user's own numbers: spread and learning rate mean what they say."""
    X, Y = data(x, y)
    rate, spread, steps = 1e-2 / (x * y), 0.1 * (y / x) ** 0.5, 20
    problem = pn.formulate("mlp", X, Y, gates=3, beta=0.1 * x * y)
    recipe = FirstOrderBM(rank=2, spread=spread, learning_rate=rate, epochs=steps, mean=False, finish=None)
    solution = pn.solve(problem, recipe, tol=1e-12, max_steps=steps)

    draws = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * spread
    first, second = (part.clone().requires_grad_() for part in (draws[:, :3], draws[:, 3:]))
    opened = problem.patterns.repeat_interleave(2, 0).T.to(torch.float64)
    descent = torch.optim.SGD([first, second], lr=rate, momentum=0.9)
    values = []
    for _ in range(steps):
        descent.zero_grad()
        prediction = (torch.from_numpy(X) @ first.T * opened) @ second
        decay = 0.5 * problem.beta * (first.square().sum() + second.square().sum())
        value = 0.5 * (prediction - torch.from_numpy(Y)).square().sum() + decay
        values.append(float(value.detach()))
        value.backward()
        descent.step()
    seen = {record.step: record.primal for record in solution.history}
    assert seen[0] == pytest.approx(values[0], rel=1e-9)
    assert seen[10] == pytest.approx(values[10], rel=1e-6)
    assert values[10] < 0.99 * values[0]


@pytest.mark.parametrize(("x", "y"), SCALES)
@pytest.mark.parametrize("method", [BM(rank=2, spread=0.3), ConeBM(rank=1, spread=0.3)], ids=["bm", "relu"])
def test_a_gaussian_start_has_the_spread_that_was_asked_for(method: BM | ConeBM, x: float, y: float) -> None:
    activation = "relu" if isinstance(method, ConeBM) else "gated_relu"
    problem = pn.formulate("mlp", *data(x, y), activation, gates=3, beta=0.1 * x * y)
    start = method.in_units(problem.units).init(problem.program, None)
    weights = problem.network(start.place.factors)
    same = method.init(problem.program, None).place.factors
    assert float(weights.penalty().detach()) == pytest.approx(float(same.penalty()), rel=1e-9)


@pytest.mark.parametrize(("x", "y"), SCALES)
def test_the_total_of_frank_wolfe(x: float, y: float) -> None:
    """CP eq. 14 at the t of the optimum comes to the optimum, however X and Y are scaled."""
    rng = np.random.default_rng(3)
    X, Y = x * rng.standard_normal((12, 2)), y * rng.standard_normal((12, 2))
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=1.0)
    problem = problem.with_beta(0.3 * problem.beta_max)
    best = pn.solve(problem, "frank_wolfe", tol=1e-8)
    total = float(best.network().penalty().detach())
    found = pn.solve(problem, ClassicFrankWolfe(total=total), tol=1e-2)
    assert found.certificate.holds(1e-2)
    assert float(found.network().penalty().detach()) == pytest.approx(total, rel=1e-6)


def test_the_total_of_frank_wolfe_in_cp_5_1() -> None:
    """25 planar points, five outputs of a ReLU teacher, β = 0.01, all arrangements: t* is far from the program's unit
    of it, and taken for one it would end at five times the optimum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 2))
    Y = np.maximum(X @ rng.standard_normal((2, 100)), 0) @ rng.standard_normal((100, 5)) / 60
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=1e-2)
    assert problem.units.z != 1.0
    best = pn.solve(problem, "copositive", tol=1e-6)
    total = float(best.network().penalty().detach())
    found = pn.solve(problem, ClassicFrankWolfe(total=total), tol=1e-2, max_steps=300)
    assert best.certificate.dual <= found.certificate.primal <= 1.5 * best.certificate.primal
    assert 0.9 * total <= float(found.network().penalty().detach()) <= total * (1 + 1e-9)


def test_rho_of_admm() -> None:
    """The same run for ρ in the user's units, steps and all."""
    runs = []
    for x, y in SCALES[:3]:
        problem = pn.formulate("mlp", *data(x, y), gates=3, beta=0.1 * x * y)
        runs.append(pn.solve(problem, ADMM(rho=2.0 * x * x, first_balance=10**9), tol=1e-9, max_steps=50))
    assert runs[0].history[-1].primal == pytest.approx(runs[1].history[-1].primal, rel=1e-9)
    assert runs[0].history[-1].primal == pytest.approx(runs[2].history[-1].primal / 64**2, rel=1e-9)
