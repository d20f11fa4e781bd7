"""Trainings of tables by hand follow autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.blocks.mlp import MLP
from provenet.formulation.by_hand import ByHand
from provenet.formulation.trainee import BlockTrainee


class _ByAutograd(MLP):
    plain = False


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "softmax"])
@pytest.mark.parametrize("intercept", [True, "free"])
@pytest.mark.parametrize("relu", [True, False])
def test_loss_and_slopes_are_those_of_autograd(loss: str, intercept: Any, relu: bool) -> None:
    generator = np.random.default_rng(0)
    X, weight = 300 * generator.standard_normal((12, 3)), generator.uniform(0.5, 2.0, 12)
    Y = np.eye(4)[generator.integers(0, 4, 12)]
    Y = 70 + 50 * generator.standard_normal((12, 4)) if loss in ("squared", "huber") else Y
    problem = pn.formulate("mlp", X, Y, loss=loss, beta=0.1, fit_intercept=intercept, n_gates=2, sample_weight=weight)
    told = problem.on_data, problem.program.loss, problem.program.beta, problem.units
    trainee = BlockTrainee(*told, relu)
    assert isinstance(trainee.on.block, MLP)
    other = replace(trainee, on=replace(trainee.on, block=_ByAutograd(trainee.on.block.fit_intercept)))
    group = torch.zeros(5, dtype=torch.long)
    layers = generator.standard_normal((5, trainee.on.p)), generator.standard_normal((5, trainee.q))
    bias = trainee.bias().numpy() + 0.1
    assert isinstance(trainee.slopes(group), ByHand)
    assert not isinstance(other.slopes(group), ByHand)
    (value, found), (expected, wanted) = (each.slopes(group)(*layers, bias) for each in (trainee, other))
    assert value == pytest.approx(expected, rel=1e-12)
    for own, known in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, known, rtol=1e-10, atol=1e-12 * (1 + np.abs(known).max(initial=0.0)))
