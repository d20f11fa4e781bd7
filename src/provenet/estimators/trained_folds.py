"""Folds whose networks are trained for moments, without proof: they are to choose β, no more.

To prove a ReLU network takes longer than to train it, and five folds at eight β are forty of them; with many outputs so
does any other.  What is kept in the end is proven whatever chose its β.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier

from provenet import deadline
from provenet.estimators.auto_beta import ENOUGH, NEURONS, STEPS
from provenet.estimators.folds import Fold, score_of
from provenet.estimators.kinds import many_outputs
from provenet.estimators.samples import TrainingData
from provenet.formulation.trainee import BlockTrainee
from provenet.gates.training import begun, descended
from provenet.problem import Problem
from provenet.variable import Factors


def trained_scores(
    fold: Fold, data: TrainingData, betas: list[float], seed: int, seconds: float | None
) -> NDArray[np.float64]:
    """The scores (betas,) of networks trained on the fold's rows at its share of each β, the first from a random one,
    the others from the one before; NaN from where the time is over."""
    model, scores = fold.model, np.full(len(betas), np.nan)
    assert fold.train is not None
    own = data.rows(fold.train)
    with deadline.within(seconds):
        model._fit_whitening(own)
        problem = roughly(model, own, seed)
        told = problem.on_data, problem.program.loss, problem.program.beta, problem.units
        trainee = BlockTrainee(*told, relu=model.activation != "linear").merged()
        trainee, widened = trainee.narrowed()
        count = min(model._wanted().count or NEURONS, NEURONS)
        group = torch.arange(len(trainee.on.groups)).repeat_interleave(count)
        layers = begun(trainee, group, np.random.default_rng(seed))
        rough = is_classifier(model) and many_outputs(model, data)  # the more outputs, the longer a training takes
        enough = ENOUGH["labels" if rough else "numbers"]
        # such a network has no gates of its own, but each neuron its group: any gate of that group says which
        gate = torch.searchsorted(problem.gates.own, group)
        for k, beta in enumerate(betas):
            at = trainee.at(problem.units.normalised_beta(beta * fold.share))
            layers = descended(at, group, layers, STEPS[k > 0], enough)
            if deadline.over():
                break
            network = problem.network(Factors(widened(layers.first), layers.second, gate))
            scores[k] = score_of(model, data, fold.test, network_=problem.outward(network))
    return scores


def roughly(model: Any, data: TrainingData, seed: int) -> Problem:
    """The problem of linear or ReLU networks, these with few gates: for its data, its units and its β_max, which is
    that of gated ReLU with these gates.  A ReLU network stands for a gated one behind its units, too."""
    problem: Problem = model._roughly(model._statement(1.0), data, model._wanted(), seed)
    kind = "linear" if model.activation == "linear" else "relu"
    return replace(problem, statement=replace(problem.statement, activation=kind))
