"""Mixtures of dual points: a better bound than any of them, never above the optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import Mixture, duality_gap, judged
from provenet.solvers import loop
from provenet.solvers.neurons.place import gaussian
from provenet.solvers.stacks.apg import APG


def posed(loss: str) -> pn.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    labels = (X @ rng.standard_normal((6, 3))).argmax(1)
    Y = labels if loss == "softmax" else np.eye(3)[labels]
    problem = pn.formulate("mlp", X, Y, loss=loss, gates=10)
    return problem.with_beta(0.05 * problem.beta_max)


@pytest.mark.parametrize("loss", ["softmax", "squared", "logistic", "huber"])
def test_a_mixture_proves_more_than_its_parts_and_no_more_than_is_true(loss: str) -> None:
    problem = posed(loss)
    program = problem.program
    exact = pn.solve(problem, tol=1e-7)
    optimum = exact.certificate.primal / problem.units.value
    mixture = Mixture(program)
    known = -np.inf
    for seed in range(6):  # points around the optimum
        near = exact.factors.scaled(0.9 + 0.04 * seed)
        noise = gaussian(program, 1, 0.1, seed)
        factors = type(near).join(near, noise)
        gap = duality_gap(program, program.operator.forward_factors(factors), float(factors.penalty()))
        mixture.add(gap.at.theta, gap.pull)
        known = max(known, gap.dual)
    theta = mixture.better(known, 0.0)
    assert theta is not None
    found = judged(program, theta).lower
    assert known < found <= optimum * (1 + 1e-9)


def test_nothing_is_promised_by_one_point_or_beyond_the_optimum() -> None:
    program = posed("softmax").program
    mixture = Mixture(program)
    gap = duality_gap(program, torch.zeros_like(program.loss.target), 0.0)
    mixture.add(gap.at.theta, gap.pull)
    assert mixture.better(-np.inf, 0.0) is None
    mixture.add(gap.at.theta, gap.pull)
    assert mixture.better(float(program.loss.value(torch.zeros_like(program.loss.target))), 1e-9) is None


def test_a_run_that_mixes_needs_no_more_steps_and_proves_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed("softmax")
    plain = pn.solve(problem, APG(), tol=1e-3)
    monkeypatch.setattr(loop, "_WORTH_MIXING", 0.0)
    mixed = pn.solve(problem, APG(), tol=1e-3)
    assert mixed.steps <= plain.steps
    assert mixed.certificate.holds(1e-3)
    duals = [record.dual for record in mixed.history]
    assert duals == sorted(duals)
    assert mixed.certificate.dual <= plain.certificate.primal
