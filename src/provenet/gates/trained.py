"""Gates of a ReLU network that is trained on the same data for a moment: its hidden units.

Whatever the network, it is a point of the gated program with its units as gates, and of the ReLU program over their
arrangements: the optimum of either is no worse in objective.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from provenet import deadline
from provenet.gates.gaussian import fill
from provenet.gates.pool import Pool, Sampled
from provenet.gates.sight import Sight, Trainee
from provenet.gates.training import PASSES, Layers, begun, descended
from provenet.vectors import unit

_STEPS = 100  # of L-BFGS: 1,000 find networks a few per cent better, and gates that predict no better
_FEWEST, _SHORTEST = 50, 30  # on samples that are many, and of labels on few, whose solve takes fractions of a second
_LONG = 4e6  # multiply-adds of a step, from which on the solve that follows takes many times what training does
_WORK = 1e10  # multiply-adds that training may take: a second or two
_MOMENTS = 5  # times as many, beyond which it is no longer a moment
_TIME = 0.2  # of what is left of a time limit
_SAMPLES = 500  # of which a network can be trained, where all would be too much work
_OFF = 1e-9  # of its length: how far a unit that grazes a row is moved


def trained(sight: Sight, count: int, seed: int | None) -> Sampled:
    """The units of one network with ``count`` of them in each group, Gaussian gates in place of those that are dead."""
    generator = np.random.default_rng(seed)
    trainee, groups = sight.trainee, sight.groups
    group = torch.arange(len(groups)).repeat_interleave(count)
    first, second, _ = train(trainee, group, generator, sight.brief)
    size = torch.linalg.vector_norm(first, dim=1) * torch.linalg.vector_norm(second, dim=1)
    found = []
    for b, rows in enumerate(groups):
        own = torch.nonzero((group == b) & (size > 0)).flatten()
        units = unit(first[own[torch.argsort(size[own], descending=True, stable=True)]])
        pool = Pool(rows, count)
        pool.add(units)
        # those that graze a row once more, off it: where a hidden value is zero but for rounding, either side will do
        chance = torch.from_numpy(generator.standard_normal(units.shape))
        pool.add(units + _OFF * unit(chance))
        fill(pool, generator)
        found.append(pool.found)
    return Sampled(found, (first, second, group))


def train(trainee: Trainee, group: Tensor, generator: np.random.Generator, brief: bool = True) -> Layers:
    """The layers of a network trained by L-BFGS, from neurons of balanced layers."""
    trainee = trainee.merged()
    steps, k = _affordable(trainee, len(group), brief)
    if k < trainee.samples:
        trainee = trainee.part(torch.from_numpy(np.sort(generator.permutation(trainee.samples)[:k])))
    trainee, widened = trainee.narrowed()
    with deadline.within(_TIME * deadline.left()):
        layers = descended(trainee, group, begun(trainee, group, generator), steps)
    return layers._replace(first=widened(layers.first))


def in_a_moment(trainee: Trainee, neurons: int) -> bool:
    """Whether training so many neurons takes seconds at most."""
    steps, k = _affordable(trainee, neurons, brief=False)
    return steps * k * PASSES * trainee.work(neurons) <= _MOMENTS * _most()


def _most() -> float:
    """Multiply-adds that training may take."""
    return min(_WORK, _TIME * deadline.left() * deadline.FAST)


def _affordable(trainee: Trainee, neurons: int, brief: bool) -> tuple[int, int]:
    """How many steps, on how many samples: fewer where the solve that follows is short, or the time."""
    each, most = PASSES * trainee.work(neurons), _most()
    k = min(trainee.samples, max(_SAMPLES, int(most / (_FEWEST * each))))
    worth = max(_SHORTEST, int(_STEPS * k * each / _LONG)) if brief else _STEPS
    return min(_STEPS, max(_FEWEST, int(most / (k * each))), worth), k
