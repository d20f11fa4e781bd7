"""How the samples of a problem are cut, and how what is made of the pieces adds up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from provenet.ranks.group import Ranks
from provenet.ranks.partition import Partition
from provenet.ranks.tree import climbed, finished, nodes

_PIECE = 2**22  # numbers that processes exchange at a time


@dataclass(frozen=True)
class Whole:
    """All samples of a problem in one piece, in this process.

    Parameters
    ----------
    n : int
        How many.
    """

    n: int
    spread: ClassVar[bool] = False  # whether other processes have more of the samples

    @property
    def slices(self) -> tuple[slice, ...]:
        """The pieces, as slices of this process's samples."""
        return (slice(0, self.n),)

    @property
    def count(self) -> int:
        """Pieces of all processes together."""
        return 1

    @property
    def own(self) -> range:
        """Which of them are this process's."""
        return range(1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many samples each of them has."""
        return (self.n,)

    def places(self, index: Tensor) -> list[Tensor]:
        """Of samples numbered through all processes (k,), ascending: their places among this one's, piece by piece."""
        return [index]

    def everywhere(self, parts: Sequence[Tensor], index: Tensor) -> Tensor:
        """What is made of those samples, given for each of `places`: of all of them (k, …), in every process."""
        return torch.cat(list(parts))

    def add(self, parts: Iterable[Tensor]) -> Tensor:
        """The sum of what is made of each piece, freshly allocated."""
        (only,) = parts
        return only

    def listed(self, parts: Iterable[Tensor]) -> Tensor:
        """What is made of each piece, of those of all processes, in their order: (pieces, …)."""
        return torch.stack(list(parts))

    def largest(self, value: float) -> float:
        """Of what each process says."""
        return value

    def highest(self, values: Tensor) -> Tensor:
        """Likewise, number by number."""
        return values

    def check_same(self, *tensors: Tensor) -> None:
        """RuntimeError where processes have different ones."""

    def randn(self, *shape: int, seed: int) -> Tensor:
        """Of the shape (samples of this process, …), in float64; the same for a sample whoever has it."""
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass(frozen=True)
class Spread(Whole):
    """Samples spread over processes, in shards; sums are taken along a tree over all of them.

    Parameters
    ----------
    n : int
        Samples of all processes.
    ranks : Ranks
        The processes.
    most : int, optional
        Shards, at most, a power of two.
    """

    ranks: Ranks = field(default_factory=Ranks)
    most: int | None = None
    spread: ClassVar[bool] = True

    @cached_property
    def partition(self) -> Partition:
        return Partition(self.n, self.ranks.world, self.most)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        return self.partition.slices_of(self.ranks.rank)

    @property
    def own(self) -> range:
        return self.partition.shards_of(self.ranks.rank)

    @property
    def count(self) -> int:
        return self.partition.shards

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        first = [self.partition.first_row(shard) for shard in range(self.count + 1)]
        return tuple(end - start for start, end in pairwise(first))

    def places(self, index: Tensor) -> list[Tensor]:
        begin = self.partition.rows_of(self.ranks.rank).start
        local = index - begin
        return [local[(local >= rows.start) & (local < rows.stop)] for rows in self.slices]

    def everywhere(self, parts: Sequence[Tensor], index: Tensor) -> Tensor:
        own = torch.cat(list(parts))
        places = [self.partition.rows_of(rank) for rank in range(self.ranks.world)]
        sizes = [int(((index >= place.start) & (index < place.stop)).sum()) for place in places]
        padded = own.new_zeros(max(sizes), *own.shape[1:])
        padded[: len(own)] = own
        carried = padded.to(torch.uint8) if padded.dtype == torch.bool else padded
        there = zip(self.ranks.gathered(carried), sizes, strict=True)
        return torch.cat([part[:size] for part, size in there]).to(own.dtype)

    def add(self, parts: Iterable[Tensor]) -> Tensor:
        own, world = climbed(parts, self.own.start), self.ranks.world
        return self._up_the_tree(own[0]) if world & (world - 1) == 0 else self._gathered(own)

    def _up_the_tree(self, total: Tensor) -> Tensor:
        """For powers of two: each process has one node, and at each level one other has the node beside it."""
        total = total.contiguous()
        for level in range(self.ranks.world.bit_length() - 1):
            total = total.add_(self.ranks.exchanged(total, self.ranks.rank ^ (1 << level)))
        return total

    def _gathered(self, own: list[Tensor]) -> Tensor:
        """For any number of processes: all nodes to all, some numbers at a time."""
        known = [nodes(self.partition.shards_of(rank)) for rank in range(self.ranks.world)]
        slots = max(map(len, known))
        flat = [total.reshape(-1) for total in own]
        out = torch.empty_like(flat[0])
        for start in range(0, max(len(out), 1), _PIECE):
            pieces = [total[start : start + _PIECE] for total in flat]
            padded = pieces + [torch.zeros_like(pieces[0])] * (slots - len(pieces))
            everywhere = self.ranks.gathered(torch.stack(padded))
            sums = {node: there[i] for at, there in zip(known, everywhere, strict=True) for i, node in enumerate(at)}
            out[start : start + _PIECE] = finished(sums, (0, self.count))
        return out.view(own[0].shape)

    def listed(self, parts: Iterable[Tensor]) -> Tensor:
        own = torch.stack(list(parts))
        counts = [len(self.partition.shards_of(rank)) for rank in range(self.ranks.world)]
        padded = own.new_zeros(max(counts), *own.shape[1:])
        padded[: len(own)] = own
        return torch.cat([there[:count] for there, count in zip(self.ranks.gathered(padded), counts, strict=True)])

    def largest(self, value: float) -> float:
        return self.ranks.largest(value)

    def highest(self, values: Tensor) -> Tensor:
        return torch.stack(self.ranks.gathered(values)).amax(0)

    def check_same(self, *tensors: Tensor) -> None:
        self.ranks.check_same(*tensors)

    def randn(self, *shape: int, seed: int) -> Tensor:
        draws = []
        for shard, rows in zip(self.own, self.slices, strict=True):
            generator = torch.Generator().manual_seed(seed * self.count + shard)
            draws.append(torch.randn(rows.stop - rows.start, *shape[1:], generator=generator, dtype=torch.float64))
        return torch.cat(draws)
