"""Trainings of tables with more columns than rows, in coordinates of what the rows span."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.estimators.auto_beta import choose_beta
from provenet.formulation.trainee import BlockTrainee


def problem_of(n: int, d: int, intercept: bool | str = True) -> pn.Problem:
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((n, d)), np.arange(n) % 2
    return pn.formulate("mlp", X, y, loss="softmax", beta=0.1, fit_intercept=intercept, gates="gaussian", n_gates=2)


def trainee_of(problem: pn.Problem) -> BlockTrainee:
    return BlockTrainee(problem.on_data, problem.program.loss, problem.program.beta, problem.units)


@pytest.mark.parametrize("intercept", [True, False, "free"])
def test_networks_say_and_cost_the_same_on_the_way_back(intercept: bool | str) -> None:
    wide = trainee_of(problem_of(6, 40, intercept))
    narrow, widened = wide.narrowed()
    group = torch.zeros(5, dtype=torch.long)
    generator = np.random.default_rng(1)
    first, second = (torch.from_numpy(generator.standard_normal((5, k))) for k in (narrow.p, narrow.q))
    back = widened(first)
    assert narrow.p == wide.p - 34
    assert back.shape == (5, wide.p)
    torch.testing.assert_close(narrow.network(group)(first, second), wide.network(group)(back, second))
    torch.testing.assert_close(back.square().sum(), first.square().sum())


def test_tables_with_more_rows_than_columns_stay_as_they_are() -> None:
    trainee = trainee_of(problem_of(6, 5))
    assert trainee.narrowed()[0] is trainee


def test_the_work_of_a_wide_table_is_that_of_its_rows() -> None:
    """Ten thousand columns of thirty rows: all trainings of the search would take minutes of what L-BFGS remembers."""
    found = choose_beta(problem_of(30, 10_000), labels=True, seed=0)
    assert not found.reason
    assert len(found.losses) == 6
