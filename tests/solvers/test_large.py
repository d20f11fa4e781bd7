"""Variables too large to form: solved and certified through products with vectors alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet.operators import BatchedOperator, PooledOperator
from provenet.polar import bounds
from provenet.solvers.neurons import hessian
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import place
from provenet.solvers.plan import plan
from provenet.variable import Factors


def poolformer(activation: str, loss: str) -> pn.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6, 12))
    labels = rng.integers(0, 5, 60)
    Y = labels if loss == "softmax" else np.eye(5)[labels]
    problem = pn.formulate(pn.PoolFormer(grid=(2, 3)), X, Y, activation=activation, gates=4, loss=loss)
    return problem.with_beta(0.1 * problem.beta_max)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stack counts as large, may not be formed, and no exact bound is affordable."""
    monkeypatch.setattr(bounds, "LARGE_BYTES", 0)
    monkeypatch.setattr(bounds, "_FINAL_WORK", 0)
    monkeypatch.setattr(hessian, "_FORMED_NUMBERS", 0)

    def refuse(*_: Tensor) -> Tensor:
        raise AssertionError("a stack was formed")

    for kind in (BatchedOperator, PooledOperator):
        for name in ("adjoint", "forward"):
            monkeypatch.setattr(kind, name, refuse)


@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_no_stack_is_formed_and_the_optimum_is_reached(
    activation: str, loss: str, request: pytest.FixtureRequest
) -> None:
    problem = poolformer(activation, loss)
    dense = pn.solve(problem, tol=1e-6)
    request.getfixturevalue("large")
    problem = poolformer(activation, loss).with_beta(problem.beta)
    solution = pn.solve(problem, BM(newton=NewtonSettings(dense=0)), tol=1e-4)
    assert solution.certificate.relative_gap <= 1e-4
    assert solution.certificate.bound in ("deterministic", "probabilistic")
    assert solution.certificate.primal == pytest.approx(dense.certificate.primal, rel=1e-4)
    assert solution.certificate.dual <= dense.certificate.primal


@pytest.mark.usefixtures("large")
def test_products_alone_make_the_same_newton_model() -> None:
    """The coupling G dv, Gᵀdu by products is the one of formed G."""
    program = poolformer("gated_relu", "softmax").program
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(6, size, generator=generator, dtype=torch.float64) for size in (12, 5))
    at = place(program, Factors(left, right, torch.arange(6) % 4))
    step = torch.randn(6, 17, generator=generator, dtype=torch.float64)
    model = hessian.ProductModel(program, at, 10)
    coupling = model.product(step, coupled=True) - model.product(step, coupled=False)
    theta = program.loss.gradient(at.prediction)
    basis = torch.eye(5, dtype=torch.float64)
    for j in range(6):
        one = Factors(torch.zeros(5, 12, dtype=torch.float64), basis, torch.full((5,), j % 4))
        G = program.operator.adjoint_factors(theta, one)[0].T
        torch.testing.assert_close(coupling[j], torch.cat([G @ step[j, 12:], G.T @ step[j, :12]]), rtol=1e-9, atol=1e-9)


def test_room_is_told_without_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = poolformer("gated_relu", "squared")
    dense = plan(problem.program, "bm", 1e-4)[0].method.memory(problem.program)
    monkeypatch.setattr(bounds, "LARGE_BYTES", 0)
    assert [stage.method.name for stage in plan(problem.program, "auto", 1e-4)] == ["bm"]
    assert plan(problem.program, "bm", 1e-4)[0].method.memory(problem.program) < dense
