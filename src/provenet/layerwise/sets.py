"""The samples of a fit: which are trained on, which are set aside, and whose they are where processes share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet.layerwise.grow import Samples
from provenet.layerwise.inputs import Held
from provenet.layerwise.samples import set_aside
from provenet.layerwise.stage import digest_by_piece, digest_of_samples
from provenet.ranks import Ranks, Spread, current


@dataclass(frozen=True)
class Sets:
    """shape: of the samples of all processes, (n, …).  digests: of samples and targets, the same whoever has which."""

    training: Samples
    validation: Samples | None
    shape: tuple[int, ...]
    digests: tuple[str, str]


def cut(
    X: NDArray[Any], targets: Tensor, fraction: float | None, classes: NDArray[Any] | None, seed: int, pieces: int
) -> Sets:
    """fraction: set aside; of every class the same share.  pieces: of rows, at most, where processes share them."""
    group = current()
    if group is None:
        rows, aside = set_aside(len(X), fraction, classes, seed)
        digests = digest_of_samples(Held(X).parts()), digest_of_samples([targets])
        validation = None if aside is None else Samples(Held(X[aside]), targets[aside])
        return Sets(Samples(Held(X[rows]), targets[rows]), validation, X.shape, digests)
    check_alike(group, X, targets)
    counts = [int(count) for count in group.told(len(X))]
    rows, aside = set_aside(sum(counts), fraction, None if classes is None else _of_all(group, classes, counts), seed)
    training = _spread(group, X, targets, rows, counts, pieces)
    validation = None if aside is None else _spread(group, X, targets, aside, counts, pieces)
    sets = [training] if validation is None else [training, validation]
    samples = [digest_by_piece(each.inputs.by_piece(), each.inputs.shards) for each in sets]
    wanted = [digest_by_piece(([each.targets[p]] for p in each.inputs.pieces), each.inputs.shards) for each in sets]
    return Sets(training, validation, (sum(counts), *X.shape[1:]), ("+".join(samples), "+".join(wanted)))


def check_alike(group: Ranks, X: NDArray[Any], targets: Tensor) -> None:
    """ValueError, in all, where processes have samples of different kinds."""
    mine = {
        "X: a sample has shape": str(X.shape[1:]),
        "X: its type is": str(X.dtype),
        "y: a target has shape": str(tuple(targets.shape[1:])),
    }
    first, *others = group.told(mine)
    for rank, other in enumerate(others, 1):
        for words, one in first.items():
            if other[words] != one:
                raise ValueError(f"{words} {one} in process 0, and {other[words]} in process {rank}.")


def _of_all(group: Ranks, numbers: NDArray[Any], counts: list[int]) -> NDArray[np.int64]:
    """Whole numbers (n',) of each process's rows, one after the other."""
    padded = torch.zeros(max(counts), dtype=torch.int64)
    padded[: len(numbers)] = torch.from_numpy(numbers.astype(np.int64))
    there = zip(group.gathered(padded), counts, strict=True)
    return torch.cat([part[:count] for part, count in there]).numpy()


def _spread(
    group: Ranks, X: NDArray[Any], targets: Tensor, rows: NDArray[np.int64], counts: list[int], pieces: int
) -> Samples:
    """These rows, ascending, of those of all processes; each goes to whose piece it is in."""
    ends = np.searchsorted(rows, np.cumsum([0, *counts]))
    begin = sum(counts[: group.rank])
    own = rows[ends[group.rank] : ends[group.rank + 1]] - begin
    shards = Spread(len(rows), group, pieces)
    places = [shards.partition.rows_of(rank) for rank in range(group.world)]
    chosen = np.diff(ends).tolist()
    samples = group.moved(torch.from_numpy(np.ascontiguousarray(X[own])), chosen, places)
    wanted = group.moved(targets[torch.from_numpy(own)], chosen, places)
    return Samples(Held(samples.numpy(), shards), wanted)
