"""Samples of a stage: held in memory or on disk, or made anew from those below, some rows at a time."""

from __future__ import annotations

import errno
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet.memory import gibibytes
from provenet.nn import Stage, TwoLayer
from provenet.ranks import Whole, current

_IN_MEMORY = 2**30  # features up to this are no file's; a number, not a share: a resumed run must decide the same
_IN_CACHE = 2**20  # hidden values
_BATCH = 256  # samples at a time, whoever asks: so that features are the same in every pass


@torch.no_grad()
def together(network: TwoLayer, x: Tensor) -> int:
    """How many of the samples x to send through a network at a time: their hidden values stay in a processor's cache,
    which halves the time of stages with many positions."""
    return max(1, _IN_CACHE // max(1, network.features(x[:1]).numel()))


class Inputs(ABC):
    """n samples of one ``shape``, in float32; of several processes each has some, in pieces that ``shards`` adds up.

    pieces: slices of this process's samples.  total: samples of all processes.
    """

    n: int
    shape: tuple[int, ...]
    shards: Whole
    pieces: tuple[slice, ...]
    total: int

    @abstractmethod
    def rows(self, index: Any) -> Tensor:
        """Some samples (b, …), by a slice or whole numbers."""

    @property
    def bytes(self) -> int:
        """Of all processes."""
        return 4 * self.total * prod(self.shape)

    def parts(self) -> Iterator[Tensor]:
        """All, in order, some at a time."""
        for piece in self.by_piece():
            yield from piece

    def by_piece(self) -> Iterator[Iterator[Tensor]]:
        """The same, piece by piece."""
        return map(self.parts_of, self.pieces)

    def parts_of(self, piece: slice) -> Iterator[Tensor]:
        """Of some of this process's."""
        for i in range(piece.start, piece.stop, _BATCH):
            yield self.rows(slice(i, min(i + _BATCH, piece.stop)))

    def some(self, most: int) -> Inputs:
        """At most so many of them, spread evenly over all processes'."""
        return self if self.total <= most else Chosen(self, spaced(self.total, most))

    def everywhere(self, index: Tensor) -> Tensor:
        """Samples by their numbers among all (k,), ascending, in every process."""
        parts = [self.rows(places.numpy()) for places in self.shards.places(index)]
        return self.shards.everywhere(parts, index)


def spaced(total: int, most: int) -> Tensor:
    """Numbers of at most so many samples, spread evenly."""
    if total <= most:
        return torch.arange(total)
    return torch.from_numpy(np.linspace(0, total - 1, most).round().astype(np.int64))


class Held(Inputs):
    """An array, in memory or mapped from a file.  shards: how samples are cut, None: they are all this process's."""

    def __init__(self, array: NDArray[Any], shards: Whole | None = None):
        self.array, self.n, self.shape = array, len(array), tuple(array.shape[1:])
        self.shards = Whole(self.n) if shards is None else shards
        self.pieces, self.total = self.shards.slices, self.shards.n

    def rows(self, index: Any) -> Tensor:
        chosen = self.array[index]
        out = torch.empty(chosen.shape)  # of torch's own alignment, so that products do not hang on where numpy puts it
        out.numpy()[...] = chosen
        return out


class Chosen(Inputs):
    """Some rows of others, by their numbers among those of all processes (k,), ascending."""

    def __init__(self, inputs: Inputs, index: Tensor):
        places = inputs.shards.places(index)
        self.inputs, self.shape, self.shards, self.total = inputs, inputs.shape, inputs.shards, len(index)
        self.chosen: NDArray[np.int64] = torch.cat(places).numpy()
        self.n = len(self.chosen)
        ends = np.cumsum([0, *map(len, places)]).tolist()
        self.pieces = tuple(slice(start, end) for start, end in pairwise(ends))

    def rows(self, index: Any) -> Tensor:
        return self.inputs.rows(self.chosen[index])


class Made(Inputs):
    """What a stage makes of its inputs: what its block sees (``passed=False``), or what it passes on."""

    def __init__(self, inputs: Inputs, stage: Stage, passed: bool):
        self.inputs, self.stage, self.passed, self.n = inputs, stage, passed, inputs.n
        self.shards, self.pieces, self.total = inputs.shards, inputs.pieces, inputs.total
        self.shape = tuple(self._of(torch.zeros(1, *inputs.shape)).shape[1:])

    def rows(self, index: Any) -> Tensor:
        return self._of(self.inputs.rows(index))

    @torch.no_grad()
    def _of(self, x: Tensor) -> Tensor:
        return self.stage.passed(x) if self.passed else self.stage.prepared(x)


class Store:
    """Keeps features that are read more than once, ``budget`` bytes at most: in memory, or in files of its ``folder``.
    What does not fit is made anew in every pass.  Bytes are those of all processes, each of which keeps its own rows:
    so whether features are kept does not hang on how many there are."""

    def __init__(self, folder: Path, budget: int):
        self.folder, self.budget, self.used = folder, budget, 0

    def kept(self, inputs: Inputs, name: str) -> Inputs:
        if self.used + inputs.bytes > self.budget:
            return inputs
        if inputs.bytes <= _IN_MEMORY:
            self.used += inputs.bytes
            return Held(self._filled(inputs, np.empty((inputs.n, *inputs.shape), dtype=np.float32)), inputs.shards)
        group = current()
        name = name if group is None else f"{name}.{group.rank}"
        return Held(self._in_file(inputs, self.folder / f"{name}.f32"), inputs.shards)

    def _filled(self, inputs: Inputs, out: NDArray[np.float32]) -> NDArray[np.float32]:
        start = 0
        for part in inputs.parts():
            out[start : start + len(part)] = part.numpy()
            start += len(part)
        return out

    def _in_file(self, inputs: Inputs, path: Path) -> NDArray[np.float32]:
        """Written in order, not through the map: a full disk is then an error, and no bus error."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(path.parent).free
            if free < 4 * inputs.n * prod(inputs.shape):
                raise OSError(errno.ENOSPC, "No space left on device")
            with path.open("wb") as file:
                for part in inputs.parts():
                    file.write(part.numpy().tobytes())
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise OSError(
                error.errno,
                f"cache: {path.parent} has no room for {gibibytes(inputs.bytes)} of features ({error.strerror}). What "
                "was trained so far is in the checkpoint; make room or give a smaller cache, and resume.",
            ) from None
        self.used += inputs.bytes
        return np.memmap(path, dtype=np.float32, mode="r", shape=(inputs.n, *inputs.shape))

    def release(self, inputs: Inputs) -> None:
        """Features that nobody reads any more."""
        if not isinstance(inputs, Held):
            return
        self.used -= inputs.bytes
        if isinstance(inputs.array, np.memmap):
            Path(str(inputs.array.filename)).unlink(missing_ok=True)
