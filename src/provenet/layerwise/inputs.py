"""Samples of a stage: held in memory or on disk, or made anew from those below, some rows at a time."""

from __future__ import annotations

import errno
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from provenet.memory import gibibytes
from provenet.nn import Stage, TwoLayer

_IN_MEMORY = 2**30  # features up to this are no file's; a number, not a share: a resumed run must decide the same
_IN_CACHE = 2**20  # hidden values
_BATCH = 256  # samples at a time, whoever asks: so that features are the same in every pass


@torch.no_grad()
def together(network: TwoLayer, x: Tensor) -> int:
    """How many of the samples x to send through a network at a time: their hidden values stay in a processor's cache,
    which halves the time of stages with many positions."""
    return max(1, _IN_CACHE // max(1, network.features(x[:1]).numel()))


class Inputs(ABC):
    """n samples of one ``shape``, in float32."""

    n: int
    shape: tuple[int, ...]

    @abstractmethod
    def rows(self, index: Any) -> Tensor:
        """Some samples (b, …), by a slice or whole numbers."""

    @property
    def bytes(self) -> int:
        return 4 * self.n * prod(self.shape)

    def parts(self) -> Iterator[Tensor]:
        """All, in order, some at a time."""
        for i in range(0, self.n, _BATCH):
            yield self.rows(slice(i, min(i + _BATCH, self.n)))

    def some(self, most: int) -> Inputs:
        """At most so many of them, spread evenly."""
        return self if self.n <= most else Chosen(self, np.linspace(0, self.n - 1, most).round().astype(np.int64))


class Held(Inputs):
    """An array, in memory or mapped from a file."""

    def __init__(self, array: NDArray[Any]):
        self.array, self.n, self.shape = array, len(array), tuple(array.shape[1:])

    def rows(self, index: Any) -> Tensor:
        return torch.from_numpy(np.array(self.array[index], dtype=np.float32, order="C"))


class Chosen(Inputs):
    """Some rows of others."""

    def __init__(self, inputs: Inputs, chosen: NDArray[np.int64]):
        self.inputs, self.chosen, self.n, self.shape = inputs, chosen, len(chosen), inputs.shape

    def rows(self, index: Any) -> Tensor:
        return self.inputs.rows(self.chosen[index])


class Made(Inputs):
    """What a stage makes of its inputs: what its block sees (``passed=False``), or what it passes on."""

    def __init__(self, inputs: Inputs, stage: Stage, passed: bool):
        self.inputs, self.stage, self.passed, self.n = inputs, stage, passed, inputs.n
        self.shape = tuple(self._of(torch.zeros(1, *inputs.shape)).shape[1:])

    def rows(self, index: Any) -> Tensor:
        return self._of(self.inputs.rows(index))

    @torch.no_grad()
    def _of(self, x: Tensor) -> Tensor:
        return self.stage.passed(x) if self.passed else self.stage.prepared(x)


class Store:
    """Keeps features that are read more than once, ``budget`` bytes at most: in memory, or in files of its ``folder``.
    What does not fit is made anew in every pass."""

    def __init__(self, folder: Path, budget: int):
        self.folder, self.budget, self.used = folder, budget, 0

    def kept(self, inputs: Inputs, name: str) -> Inputs:
        if self.used + inputs.bytes > self.budget:
            return inputs
        if inputs.bytes <= _IN_MEMORY:
            self.used += inputs.bytes
            return Held(self._filled(inputs, np.empty((inputs.n, *inputs.shape), dtype=np.float32)))
        return Held(self._in_file(inputs, self.folder / f"{name}.f32"))

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
            if free < inputs.bytes:
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
