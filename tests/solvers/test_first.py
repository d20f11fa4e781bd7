"""A run that is cut short before its first step has a network all the same."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet import deadline
from provenet.certificates import duality_gap
from provenet.solvers.first import first_neurons
from provenet.testing.examples import Example, examples

N = 30


def posed(example: Example, activation: str, share: float, **settings: Any) -> pn.Problem:
    X = example.samples(N)
    Y = np.random.default_rng(1).standard_normal((N, example.outputs))
    problem = pn.formulate(example.block, X, Y, activation, 10, mask=example.mask(N), **settings)
    return problem.with_beta(share * problem.beta_max)


@pytest.mark.parametrize("activation", ["linear", "gated_relu", "relu"])
@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_no_time_is_enough_for_some_neurons(example: Example, activation: str) -> None:
    problem = posed(example, activation, 0.05, fit_intercept="free")
    nothing = torch.zeros_like(problem.program.loss.target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = pn.solve(problem, max_seconds=1e-9)
    assert found.status is pn.Status.TIME_LIMIT
    assert 0 < found.factors.n_neurons <= 8
    assert found.certificate.primal < (1 - 1e-3) * float(problem.program.loss.value(nothing)) * problem.units.value
    assert found.certificate.dual <= found.certificate.primal


def test_above_beta_max_there_are_none() -> None:
    program = posed(next(iter(examples())), "gated_relu", 1.01).program
    at_zero = duality_gap(program, torch.zeros_like(program.loss.target), 0.0)
    assert first_neurons(program, at_zero).n_neurons == 0


def test_there_are_no_more_than_there_is_time_to_judge() -> None:
    program = posed(next(iter(examples())), "gated_relu", 0.01).program
    at_zero = duality_gap(program, torch.zeros_like(program.loss.target), 0.0)
    with deadline.judging(2.7):
        assert first_neurons(program, at_zero).n_neurons == 2
