"""Where the rows of a shard are: in memory, or in a file that is read some rows at a time.

Files are read, not mapped: pages of a map count as the process's own, and a file that shrinks under one ends it.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from provenet import batches
from provenet.files import check_regular

_WHAT_NOW = "A certificate is of fixed samples: pose the problem anew on the data as they are now."


class Part(ABC):
    """Rows (n, …) of numbers."""

    name: str  # as messages call it
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def read(self, first: int, end: int) -> NDArray[Any]:
        """Some rows in a row."""

    def __len__(self) -> int:
        return self.shape[0]

    def tiles(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """(the first row's number, rows), some at a time."""
        for rows in batches.slices(len(self), math.prod(self.shape[1:]), batches.PASS, self.dtype.itemsize):
            yield rows.start, self.read(rows.start, rows.stop)

    def digest(self) -> bytes:
        """Of its numbers, in a pass over them."""
        seen = hashlib.blake2b(digest_size=32)
        for _, rows in self.tiles():
            seen.update(np.ascontiguousarray(rows).data)
        return seen.digest()

    def changed(self) -> ValueError:
        return ValueError(f"{self.name}: it has changed since the problem was posed. {_WHAT_NOW}")


class Resident(Part):
    """An array that is there; it is not copied."""

    def __init__(self, array: NDArray[Any], name: str):
        self.array, self.name = array, name
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, first: int, end: int) -> NDArray[Any]:
        return self.array[first:end]


@dataclass
class Mapped(Part):
    """Rows of a file of numbers, from a byte on; columns: those of a table (n, d) that count, None: all.  sample: the
    shape in which a row is read, None: as it is.  keeps: what must not go while the file is needed."""

    path: Path
    whole: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    columns: NDArray[np.intp] | None = None
    sample: tuple[int, ...] | None = None
    keeps: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.name = str(self.path)
        row = self.whole[1:] if self.columns is None else (len(self.columns),)
        self.shape = (self.whole[0], *(row if self.sample is None else self.sample))

    @staticmethod
    def of_npy(path: Path) -> Mapped:
        """The array of an NPY file."""
        size = check_regular(path)
        try:
            with path.open("rb") as file:
                version = npy.read_magic(file)
                head: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version](file)
                shape, by_columns, dtype = head
                begins = file.tell()
        except (ValueError, KeyError, EOFError) as error:
            raise ValueError(f"{path}: it is not a readable NPY file ({error}).") from None
        if dtype.kind not in "biuf" or len(shape) < 1:
            raise ValueError(f"{path}: numbers of shape (n, …) are needed, it holds {dtype} of shape {shape}.")
        if by_columns and len(shape) > 1:
            raise ValueError(f"{path}: it is stored column by column; save np.ascontiguousarray of it instead.")
        if math.prod(shape) * dtype.itemsize != size - begins:
            raise ValueError(f"{path}: it announces {math.prod(shape)} numbers and has another size.")
        return Mapped(path, shape, dtype, begins)

    @staticmethod
    def of_map(array: NDArray[Any]) -> Mapped | None:
        """What numpy has mapped; None where it is no such array, or its rows do not lie one after the other."""
        root: Any = array
        while isinstance(root, np.ndarray) and not (isinstance(root, np.memmap) and _is_map(root.base)):
            root = root.base
        if not isinstance(root, np.memmap) or not array.flags.c_contiguous or root.filename is None:
            return None
        begins = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return Mapped(Path(root.filename), array.shape, array.dtype, int(root.offset) + begins)

    def read(self, first: int, end: int) -> NDArray[Any]:
        each = math.prod(self.whole[1:])
        begins = self.offset + first * each * self.dtype.itemsize
        try:
            found = np.fromfile(self.path, self.dtype, (end - first) * each, offset=begins)
        except OSError as error:
            raise ValueError(f"{self.path}: its rows {first} to {end - 1} cannot be read ({error}).") from None
        if found.size != (end - first) * each:
            raise self.changed()
        rows = found.reshape(end - first, *self.whole[1:])
        rows = rows if self.columns is None else rows[:, self.columns]
        return rows if self.sample is None else rows.reshape(end - first, *self.sample)


def _is_map(base: Any) -> bool:
    return base is not None and not isinstance(base, np.ndarray)
