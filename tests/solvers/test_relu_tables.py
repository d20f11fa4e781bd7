"""ReLU with several outputs, as estimators pose it: certified at their default tolerance, by few feasible neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.solvers.cones.face_model import FaceModel
from provenet.solvers.cones.faces import Walls
from provenet.solvers.neurons.hessian import DenseModel
from provenet.solvers.neurons.place import gradient, place
from provenet.variable import Factors


def table(n: int, d: int, c: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((n, d))
    scores = np.maximum(X @ draw.standard_normal((d, 6)), 0) @ draw.standard_normal((6, c))
    return np.column_stack([X, np.ones(n)]), scores.argmax(1)


def posed(loss: str, weights: bool = False, beta: float = 0.5, **more: Any) -> pn.Problem:
    X, y = table(30, 4, 3)
    sample_weight = np.random.default_rng(1).uniform(0.2, 3.0, len(X)) if weights else None
    Y = y if loss == "softmax" else np.eye(3)[y]
    return pn.formulate(
        "mlp", X, Y, activation="relu", gates=7, loss=loss, beta=beta, sample_weight=sample_weight, **more
    )


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("loss", ["softmax", "squared", "logistic", "huber"])
def test_certified_by_few_feasible_neurons(loss: str, weights: bool) -> None:
    problem = posed(loss, weights)
    solution = pn.solve(problem, tol=1e-3, max_steps=40)
    assert solution.method.startswith("cone_bm")
    assert solution.certificate.holds(1e-3)
    network = solution.network()
    assert len(network.first) <= 30
    opened = (problem.X @ network.first.detach().T).T >= 0
    assert torch.equal(opened, problem.patterns[solution.factors.gate])


def test_a_smaller_beta_begins_where_a_larger_one_ended() -> None:
    problem = posed("softmax")
    warm = pn.solve(problem, tol=1e-3, max_steps=40)
    nearby = problem.with_beta(0.45)
    again = pn.solve(nearby, tol=1e-3, max_steps=40, start=warm)
    cold = pn.solve(nearby, tol=1e-3, max_steps=40)
    assert again.certificate.holds(1e-3)
    assert again.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-3)


def test_the_model_along_the_faces_is_the_whole_one_restricted() -> None:
    program = posed("softmax").program
    draw = torch.Generator().manual_seed(0)
    gate = torch.tensor([0, 3, 3, 6])
    factors = Factors(
        program.gauge.region.inside[gate]
        + 0.01 * torch.randn(4, program.operator.p, generator=draw, dtype=torch.float64),
        torch.randn(4, program.operator.q, generator=draw, dtype=torch.float64),
        gate,
    )
    at = place(program, factors)
    slope = gradient(program, at)
    walls = Walls(torch.randn(4, 3, program.operator.p, generator=draw, dtype=torch.float64))
    walls = Walls(walls.normals / walls.normals.norm(dim=2, keepdim=True))
    across, onto = walls.face(factors.left)
    whole = DenseModel(program, at)
    lift = torch.cat([onto, torch.zeros_like(factors.right)], dim=1)
    for coupled in (True, False):
        damping = 50 * program.beta
        few = FaceModel(program, at, slope, walls).solve(damping, coupled)
        rest = whole.solve(slope + whole.product(lift, coupled), damping, coupled, across)
        assert few is not None
        assert rest is not None
        assert torch.allclose(few, lift + rest, atol=1e-9)
