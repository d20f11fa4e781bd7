"""What a problem in shards takes, told before anything is allocated.

A limit is of what posing, solving and certifying allocate, beyond what the process has already.  Predictions, targets,
patterns and stacks take what they take.  Of the rest a part is for each shard that is worked on, parts are the
method's (it asks `batches.share`), and what is left keeps shards in memory between passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from provenet.memory import shown

_PREDICTIONS = 26  # arrays of the prediction's size, in float64: targets, points and dual points, and a loss at work
_PATTERNS = 2.2  # bytes of a pattern's entry, while gates are found
_STACKS = 8  # of A*Θ, in float64
_ALIVE = 5  # copies of a shard's rows, in float64, while its operator is made
_PLACES = 40  # arrays of all neurons' weights, in float64, besides what is remembered of steps
_SQUARES, _MOST_AXES = 6, 2_000  # p × p matrices, while the data's axes are found, and up to which p they are
_LIBRARIES = 8 * 10**6  # what libraries take for themselves as they go
_SHARD, _METHOD, _LOST = 1 / 8, 9 / 20, 1 / 8  # of what is left: for one shard, for the method, and between blocks
_FEWEST_ROWS = 16  # a shard has, if there are as many
_LARGEST_SHARD = 40 * 10**6  # more rows at a time would gain nothing
_A_GATE, _MOST_OPEN = 2.5, 64  # neurons a gate has, and gates that are open, about


@dataclass(frozen=True)
class Sizes:
    """Of a problem: n samples of so many ``numbers``, ``rho`` rows each, (p, q) of neurons, ``outputs`` entries of the
    prediction, and gates."""

    n: int
    numbers: int
    rho: int
    p: int
    q: int
    outputs: int
    gates: int

    @property
    def neurons(self) -> int:
        """That are expected."""
        return int(min(_A_GATE * min(self.gates, _MOST_OPEN), self.gates * min(self.p, self.q))) + 1

    @property
    def fixed(self) -> int:
        stacks = _STACKS * 8 * self.gates * self.p * self.q
        places = _PLACES * 8 * self.neurons * (self.p + self.q)
        patterns = int(_PATTERNS * self.n * self.rho * self.gates)
        axes = _SQUARES * 8 * self.p**2 if self.rho == 1 and self.p <= _MOST_AXES else 0
        return _PREDICTIONS * 8 * self.outputs + patterns + stacks + places + axes + _LIBRARIES

    @property
    def row(self) -> int:
        """Bytes of a sample while its shard is worked on."""
        return _ALIVE * 8 * max(self.numbers, self.p if self.rho == 1 else 0) + 2 * self.rho * self.gates

    def kept_row(self, itemsize: int) -> int:
        """Bytes of a sample in a shard that is kept, with hidden values."""
        held = 2 * self.numbers + 2 * self.neurons if self.rho > 1 else self.p + 2 * self.neurons
        return itemsize * held + 2 * self.rho * self.gates

    @property
    def least(self) -> int:
        """The smallest limit that works."""
        rows = min(_FEWEST_ROWS, self.n)
        return self.fixed + int(max(rows * self.row / _SHARD, 10 * 8 * self.neurons * (self.p + self.q) / _METHOD))


@dataclass(frozen=True)
class MemoryPlan:
    """rows: of a shard.  left: of the limit, beyond what is fixed.  Printed, it says what will be used."""

    sizes: Sizes
    limit: int
    rows: int

    @staticmethod
    def of(sizes: Sizes, limit: int) -> MemoryPlan:
        if limit < sizes.least:
            raise ValueError(
                f"memory_limit: {shown(limit)} is less than the least that works here, "
                f"{shown(sizes.least)}: {shown(sizes.fixed)} for predictions, gates and neurons, and the "
                "rest for a few rows at a time."
            )
        room = min(_SHARD * (limit - sizes.fixed), _LARGEST_SHARD)
        return MemoryPlan(sizes, limit, max(1, min(int(room / sizes.row), sizes.n)))

    @property
    def left(self) -> int:
        return self.limit - self.sizes.fixed

    @property
    def at_first(self) -> int:
        """Rows that can be worked on at a time before any are kept."""
        return max(self.rows, int(self.left / 2 / self.sizes.row))

    def kept(self, itemsize: int) -> int:
        """How many samples stay in memory between passes, in numbers of this size."""
        room = (1 - _METHOD - _LOST) * self.left - self.rows * self.sizes.row
        return min(self.sizes.n, max(0, int(room / self.sizes.kept_row(itemsize))))

    @property
    def used(self) -> int:
        """Bytes, at most."""
        kept = self.kept(4) * self.sizes.kept_row(4)
        return int(self.sizes.fixed + self.rows * self.sizes.row + (_METHOD + _LOST) * self.left + kept)

    def __str__(self) -> str:
        sizes, kept = self.sizes, self.kept(4)
        stay = (
            f"all {kept:,} rows stay in memory" if kept == sizes.n else f"{kept:,} of {sizes.n:,} rows stay in memory"
        )
        again = "" if kept == sizes.n else "; the others are read anew in each pass"
        method, shard = (_METHOD + _LOST) * self.left, self.rows * sizes.row
        return (
            f"memory: up to {shown(self.used)} of the {shown(self.limit)} allowed, beyond what the process has: "
            f"{shown(sizes.fixed)} for predictions, {sizes.gates} gates and neurons, {shown(method)} for the method, "
            f"{shown(shard)} for {self.rows:,} rows at a time; {stay} ({shown(kept * sizes.kept_row(4))}){again}."
        )
