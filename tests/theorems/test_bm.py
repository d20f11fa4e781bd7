"""Theorems of the factorisation: the gap bound at stationary points, the descent of an escape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.problem import Program
from provenet.solvers.loop import Limits, run
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.escape import escape
from provenet.solvers.neurons.place import Place, gradient, place
from provenet.variable import Factors


def make_program(loss: str, seed: int) -> Program:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    Y = rng.normal(size=(30, 3)) if loss in ("squared", "huber") else np.eye(3)[rng.integers(3, size=30)]
    problem = pn.formulate("mlp", X, Y, gates=8, loss=loss, seed=seed)
    return problem.with_beta(0.1 * problem.beta_max).program


def stationary(program: Program, gate: int) -> Place:
    """A stationary point with neurons behind one gate only: Newton without escape, on a program of that gate."""
    alone = program.restrict(torch.tensor([gate]))
    factors = run(BM(), alone, Limits(1e-13, max_steps=200)).factors
    at = place(program, Factors(factors.left, factors.right, torch.full_like(factors.gate, gate)))
    assert float(gradient(program, at).abs().max()) < 1e-6 * program.beta
    return at


def polars(program: Program, at: Place) -> torch.Tensor:
    slope = program.operator.adjoint(program.loss.gradient(at.prediction))
    return torch.linalg.matrix_norm(slope, 2)


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("seed", [0, 1])
def test_theorem_3_4_bounds_the_gap_at_stationary_points(loss: str, seed: int) -> None:
    program = make_program(loss, seed)
    best = run(BM(), program, Limits(1e-9))
    optimum = best.history[-1].dual
    for gate in range(0, 8, 3):
        at = stationary(program, gate)
        bound = max(float(polars(program, at).max()) / program.beta - 1, 0.0)
        assert (at.value - optimum) / optimum <= bound + 1e-6


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
def test_an_escaping_neuron_descends_by_its_violation(loss: str) -> None:
    """Objective change −ε²(σ − β) + O(ε⁴): halving ε divides the error of that formula by sixteen."""
    program = make_program(loss, 2)
    at = stationary(program, 0)
    slope = program.operator.adjoint(program.loss.gradient(at.prediction))
    gate = int(polars(program, at).argmax())
    sigma = float(polars(program, at)[gate])
    assert sigma > 1.1 * program.beta
    U, _, Vh = torch.linalg.svd(-slope[gate : gate + 1], full_matrices=False)
    u, v = U[:, :, 0], Vh[:, 0]
    errors = []
    for epsilon in (2e-2, 1e-2):
        moved = place(program, Factors.join(at.factors, Factors(u * epsilon, v * epsilon, torch.tensor([gate]))))
        change = moved.value - at.value
        assert change < 0
        errors.append(abs(change + epsilon**2 * (sigma - program.beta)))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.2)


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_escape_lowers_the_objective_until_nothing_violates(loss: str) -> None:
    program = make_program(loss, 3)
    at = stationary(program, 0)
    violation = polars(program, at) - program.beta
    out = escape(program, at, most=3)
    assert out is not None
    assert out.value < at.value
    added = out.factors.gate[at.factors.n_neurons :]
    assert added.tolist() == torch.argsort(violation, descending=True)[:3].tolist()
    solved = run(BM(), program, Limits(1e-11)).factors
    last = escape(program, place(program, solved), most=3)
    assert last is None or place(program, solved).value - last.value <= 1e-9 * last.value


def test_escape_is_a_descent_from_any_point_not_only_a_stationary_one() -> None:
    program = make_program("squared", 4)
    empty = place(program, Factors.empty(3, 3))
    out = escape(program, empty, most=8)
    assert out is not None
    assert out.value < empty.value
    assert out.factors.n_neurons == 8
