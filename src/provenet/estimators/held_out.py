"""How networks do on samples that were left out, and which of a row of them does best.

A class is decided by which output is largest, so what counts for labels is how many of them are wrong; but few
samples are a coarse measure, and the loss is a finer one.  As it stands it punishes networks that are right, but surer
than they should be, and these are what little weight decay leads to: so outputs are first multiplied by the factor that
is best for the samples left out (Guo et al. 2017, "On calibration of modern neural networks").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from provenet.estimators.choice import with_neighbours
from provenet.formulation.trainee import BlockTrainee
from provenet.gates.training import Layers

FACTORS = tuple(2.0**k for k in range(-4, 3))  # by which outputs are multiplied, where that is allowed
_OF_LOSS = 0.3  # what a nat counts for beside a wrong label


class Verdict(NamedTuple):
    """Of one network on one fold: its losses a sample (factors,), and the part of the labels that is wrong, zero where
    targets are no classes."""

    losses: NDArray[np.float64]
    wrong: float


class HeldOut:
    """Samples that were left out; ``labels``: their targets are classes."""

    def __init__(self, judge: BlockTrainee, group: torch.Tensor, labels: bool) -> None:
        self.judge, self.labels = judge, labels
        self.said: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = judge.network(group)
        self.factors = FACTORS if labels else (1.0,)
        self.weight = judge.loss.sample_weight

    def verdict(self, layers: Layers) -> Verdict:
        judge, outputs = self.judge, self.said(layers.first, layers.second)
        bias = layers.bias if len(layers.bias) else None
        unit = judge.units.y**2 / float(self.weight.sum())
        losses = [
            unit * float(judge.loss.value_at(factor * outputs, None if bias is None else factor * bias))
            for factor in self.factors
        ]
        return Verdict(np.array(losses), self._wrong(outputs if bias is None else outputs + bias))

    def _wrong(self, outputs: torch.Tensor) -> float:
        if not self.labels:
            return 0.0
        wrong = classes(outputs, 0.0) != classes(self.judge.loss.target, 0.5)
        return float(self.weight[wrong].sum() / self.weight.sum())


def classes(values: torch.Tensor, threshold: float) -> torch.Tensor:
    """The class (n,) that values (n, c) speak for: the largest of several; one alone is above a threshold, or not."""
    return values.argmax(1) if values.shape[1] > 1 else (values[:, 0] > threshold).long()


def scores(losses: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is to be small, (k,), of losses (folds, k) and the parts of labels that are wrong (folds, k), in a row."""
    return with_neighbours((wrong + _OF_LOSS * losses).mean(0))
