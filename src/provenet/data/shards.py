"""Samples in parts, of which only some rows are in memory at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet import batches
from provenet.data.partition import Partition
from provenet.data.parts import Part

Prepare = Callable[[Tensor], Tensor]

_EXACT_SINGLE = ("float32", "float16", "uint8", "int8", "uint16", "int16", "bool")  # float32 holds all their numbers


class Shards:
    """X (n, …), as much like a tensor as is asked of samples: its shape, some rows at a time, groups of its features.

    last: of each sample's last axis, what counts, None: all.  prepare: what is made of rows as they are read.
    """

    def __init__(self, parts: Sequence[Part], last: slice | None = None, prepare: Prepare | None = None):
        self.parts, self._last, self._prepare = tuple(parts), last, prepare
        self._rows = Partition([len(part) for part in self.parts])
        self._digests: tuple[bytes, ...] | None = None
        sizes = self.parts[0].shape[1:]
        ends = sizes if last is None else (*sizes[:-1], len(range(*last.indices(sizes[-1]))))
        self.shape = torch.Size((self._rows.total, *ends))
        single = prepare is None and all(part.dtype.name in _EXACT_SINGLE for part in self.parts)
        self.dtype = torch.float32 if single else torch.float64

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Tensor:
        """Rows in a row, a copy, in float32 where that rounds nothing."""
        found = [self._read(self.parts[part], first, end) for part, first, end in self._rows.within(rows)]
        if not found:
            return torch.empty(0, *self.shape[1:], dtype=self.dtype)
        return found[0] if len(found) == 1 else torch.cat(found)

    def _read(self, part: Part, first: int, end: int) -> Tensor:
        kind = str(self.dtype).removeprefix("torch.")
        rows = torch.from_numpy(np.array(part.read(first, end), dtype=kind, order="C"))
        rows = rows if self._prepare is None else self._prepare(rows)
        return rows if self._last is None else rows[..., self._last].contiguous()

    def prepared(self, prepare: Prepare) -> Shards:
        """The same parts, and what is made of their rows, (b, …) of the same shape, in float64."""
        other = Shards(self.parts, self._last, prepare)
        other._digests = self._digests
        return other

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """A pass: which rows, and they."""
        for rows in batches.slices(len(self), math.prod(self.shape[1:]), batches.PASS):
            yield rows, self[rows]

    def stride(self, count: int) -> int:
        """Every so many rows are about ``count``."""
        return max(1, len(self) // max(count, 1))

    def spaced(self, count: int) -> Tensor:
        """About ``count`` rows: the first, and every `stride` from there on."""
        stride = self.stride(count)
        return torch.cat([x[-rows.start % stride :: stride].clone() for rows, x in self.tiles()])  # views hold all rows

    def tensor_split(self, groups: int, dim: int) -> tuple[Shards, ...]:
        """The last axis in so many equal groups; ``dim`` must be the last one."""
        assert dim == self.ndim - 1
        width = self.shape[dim] // groups
        return tuple(Shards(self.parts, slice(b * width, (b + 1) * width), self._prepare) for b in range(groups))

    def surveyed(self, measure: Callable[[Tensor], float]) -> float:
        """The first pass: all numbers must be finite, what they are is remembered, or must be as it was; the largest
        ``measure`` of some rows is returned."""
        largest, digests = 0.0, []
        for part in self.parts:
            seen = hashlib.blake2b(digest_size=32)
            for first, rows in part.tiles():
                seen.update(np.ascontiguousarray(rows).data)
                _check_finite(rows, part.name, first)
                x = torch.from_numpy(rows.astype(np.float64))
                largest = max(largest, measure(x if self._prepare is None else self._prepare(x)))
            digests.append(seen.digest())
            if self._digests is not None and self._digests[len(digests) - 1] != digests[-1]:
                raise part.changed()
        self._digests = tuple(digests)
        return largest

    def min(self) -> float:
        return min(float(x.min()) for _, x in self.tiles())

    def max(self) -> float:
        return max(float(x.max()) for _, x in self.tiles())

    def check_unchanged(self) -> None:
        """That the numbers are those of the first pass."""
        for part, known in zip(self.parts, self._digests or (), strict=False):
            if part.digest() != known:
                raise part.changed()


def _check_finite(rows: NDArray[Any], name: str, first: int) -> None:
    if rows.dtype.kind != "f" or bool(np.isfinite(rows).all()):
        return
    row, *where = np.argwhere(~np.isfinite(rows))[0].tolist()
    what = "NaN" if np.isnan(rows[row][tuple(where)]) else "infinity"
    raise ValueError(f"X: {name} contains {what}, in row {first + row} at {tuple(where)}.")
