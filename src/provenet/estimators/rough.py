"""β_max with a few gates; where time is short, on a part of the samples, as losses are sums."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet import deadline
from provenet.beta import Beta
from provenet.data.shards import Shards
from provenet.estimators.samples import TrainingData
from provenet.problem import Problem
from provenet.ranks import current

_FEWEST = 512  # samples that are tried, where there are some times as many
_SEVERAL = 4
_SHARE = 0.1  # of the time left


@dataclass(frozen=True)
class Rough:
    """problem: of this share of all samples, by weight; n: how many there are in all."""

    problem: Problem
    share: float
    n: int

    def of(self, beta: Beta) -> float:
        """What it is on all samples, about."""
        return beta.summed(self.n, lambda: self.problem.beta_max / self.share)


def rough(data: TrainingData, pose: Callable[[TrainingData], Problem]) -> Rough:
    """The problem on as many samples as a tenth of the time allows, told by how long a few take; without a limit on
    all.  Several processes have each a clock of its own: they take all."""
    n, left = len(data.X), deadline.left()
    if left == math.inf or n < _SEVERAL * _FEWEST or isinstance(data.X, Shards) or current() is not None:
        return Rough(pose(data), 1.0, n)
    began = time.perf_counter()
    tried = _on(data, _FEWEST, pose)
    tried.problem.beta_max  # noqa: B018 — it is what takes long
    allowed = int(_FEWEST * _SHARE * left / (time.perf_counter() - began))
    return _on(data, min(n, allowed), pose) if allowed >= 2 * _FEWEST else tried


def _on(data: TrainingData, count: int, pose: Callable[[TrainingData], Problem]) -> Rough:
    """On so many samples, evenly spaced among those that weigh something."""
    n = len(data.X)
    weight = np.ones(n) if data.weight is None else data.weight
    there = np.flatnonzero(weight > 0)
    some = there[np.arange(min(count, len(there))) * len(there) // min(count, len(there))]
    return Rough(pose(data if len(some) == n else data.rows(some)), float(weight[some].sum() / weight.sum()), n)
