"""Which rows are whose: arithmetic alone.

Rows are cut into shards by their number alone, and shards are handed to processes, some in a row to each.  So the
shards, and all that is made of one, are the same whatever the number of processes.
"""

from __future__ import annotations

from dataclasses import dataclass

_ROWS = 2048  # of a shard, at least, where there are many
_FEWEST, _MOST = 8, 2**16  # shards


def shard_count(n: int) -> int:
    """How many shards rows are cut into: a power of two, no more than there are rows.

    Parameters
    ----------
    n : int
        Rows.
    """
    wanted = min(max(n // _ROWS, _FEWEST), _MOST, n)
    return 1 << (wanted.bit_length() - 1)


@dataclass(frozen=True)
class Partition:
    """Rows in shards, and those over processes; each has one shard at least.

    Parameters
    ----------
    n : int
        Rows of all processes.
    world : int, default 1
        Processes.
    most : int, optional
        Shards, at most, a power of two; by default as many as `shard_count` says.
    """

    n: int
    world: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        if self.n < 1 or self.world > self.shards:
            most = self.shards if self.n else 0
            raise ValueError(
                f"ranks: {self.n} rows are cut into {most} shards, too few for {self.world} processes; start {most} at "
                "most."
            )

    @property
    def shards(self) -> int:
        if self.most is None or self.n == 0:
            return shard_count(self.n) if self.n else 0
        return 1 << (min(self.most, self.n).bit_length() - 1)

    def first_row(self, shard: int) -> int:
        """Where a shard begins; of the number of shards: where the last one ends."""
        return self.n * shard // self.shards

    def shards_of(self, rank: int) -> range:
        return range(self.shards * rank // self.world, self.shards * (rank + 1) // self.world)

    def rows_of(self, rank: int) -> slice:
        own = self.shards_of(rank)
        return slice(self.first_row(own.start), self.first_row(own.stop))

    def slices_of(self, rank: int) -> tuple[slice, ...]:
        """The shards of a process, as slices of its own rows."""
        begin = self.rows_of(rank).start
        return tuple(slice(self.first_row(s) - begin, self.first_row(s + 1) - begin) for s in self.shards_of(rank))
