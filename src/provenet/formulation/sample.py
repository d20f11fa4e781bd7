"""Some samples of all processes, the same for each: what is trained on for gates and for β, where rows are spread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.blocks.rows import Rows
from provenet.formulation.trainee import BlockTrainee
from provenet.gates.sight import Sight
from provenet.ranks import Spread, Whole

_MOST = 2048  # samples
_BYTES = 2**26  # of X, in all of them
_FEWEST = 64


@dataclass(frozen=True)
class _Looked:
    """Rows as a sampler sees them: some of a sample that all processes have, patterns of each one's own."""

    own: Rows
    sample: Rows

    @property
    def p(self) -> int:
        return self.own.p

    def __len__(self) -> int:
        return len(self.sample)

    def some(self, index: Tensor) -> Tensor:
        return self.sample.some(index)

    def patterns(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        return self.own.patterns(vectors)


def sample_of(trainee: BlockTrainee, shards: Whole) -> BlockTrainee:
    """On evenly spaced samples of all processes, the same in each, or on all where they are few; as it is, where this
    process has all of them."""
    if not isinstance(shards, Spread):
        return trainee
    on, loss = trainee.on, trainee.loss
    each = on.X[:1].nbytes
    count = min(shards.n, _MOST, max(_FEWEST, _BYTES // max(each, 1)))
    X, target, weight = (_everywhere(part, count, shards) for part in (on.X, loss.target, loss.sample_weight))
    mask = None if on.mask is None else _everywhere(on.mask, count, shards)
    seen = on.block.on(X, on.outputs, on.readout, mask)
    return replace(trainee, on=seen, loss=loss.alone(target, weight, mask), beta=trainee.beta * count / shards.n)


def sight_of_sample(trainee: BlockTrainee, shards: Whole) -> Sight:
    """What samplers may look at: where samples are few, gates are those of one process with all the data."""
    some = sample_of(trainee, shards)
    groups = [_Looked(own, sample) for own, sample in zip(trainee.on.groups, some.on.groups, strict=True)]
    return Sight(groups, some.loss.target.flatten(0, -2), some)


def _everywhere(rows: Tensor, count: int, shards: Spread) -> Tensor:
    """``count`` evenly spaced rows of all processes, on each."""
    index = torch.arange(count) * shards.n // count
    return shards.everywhere([rows[places] for places in shards.places(index)], index)
