"""An embedding while it is being made: arrays that grow, and a marker of how far they are whole."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from numpy.typing import NDArray

from provenet.embeddings.embedding import ABOUT, MASK, REDUCTION, TOKENS, file_digest
from provenet.files import read_regular, write_atomically
from provenet.nn.reduction import Reduction

PROGRESS = "progress.json"
_EVERY = 5.0  # seconds between two markers
_CHUNK = 1024  # samples that are moved at a time


@dataclass
class Store:
    """done: samples that were read; skipped: (row, name, why) of those among them that could not be.

    The marker is written after the arrays are on disk: whatever happens, rows before it are whole.
    """

    folder: Path
    recipe: dict[str, Any]
    reduction: Reduction
    shape: tuple[int, int, int]
    masked: bool
    done: int = 0
    skipped: list[tuple[int, str, str]] = field(default_factory=list)
    _arrays: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    _marked: float = field(default_factory=time.perf_counter, repr=False)

    def begin(self) -> None:
        """New arrays, and the reduction they will be made with."""
        if self.reduction.components is not None:
            tensors = {"mean": self.reduction.mean, "components": self.reduction.components}
            held = {name: value.contiguous() for name, value in tensors.items() if value is not None}
            write_atomically(self.folder / REDUCTION, safetensors.torch.save(held))
        self._open("w+")
        self.mark()

    def go_on(self) -> None:
        self._open("r+")

    def _open(self, mode: Any) -> None:
        self._arrays = {TOKENS: _memmap(self.folder / TOKENS, mode, np.float32, self.shape)}
        if self.masked:
            self._arrays[MASK] = _memmap(self.folder / MASK, mode, np.bool_, self.shape[:2])

    def add(self, read: int, tokens: Any, mask: Any, skipped: list[tuple[int, str, str]]) -> None:
        """The tokens (b, s, d) and mask (b, s) of the next samples, of which ``read`` were asked for."""
        at = self.written
        self._arrays[TOKENS][at : at + len(tokens)] = tokens
        if self.masked:
            self._arrays[MASK][at : at + len(tokens)] = mask
        self.done += read
        self.skipped += skipped
        if time.perf_counter() - self._marked > _EVERY:
            self.mark()

    @property
    def written(self) -> int:
        return self.done - len(self.skipped)

    def mark(self) -> None:
        for array in self._arrays.values():
            if isinstance(array, np.memmap):
                array.flush()
        state = {
            "recipe": self.recipe,
            "shape": self.shape,
            "masked": self.masked,
            "grid": self.reduction.grid,
            "done": self.done,
            "skipped": self.skipped,
        }
        write_atomically(self.folder / PROGRESS, json.dumps(state).encode())
        self._marked = time.perf_counter()

    def finish(self, about: dict[str, Any]) -> None:
        """Checksums and the description, which makes it whole."""
        self.mark()
        names = list(self._arrays)
        self._arrays.clear()
        if self.skipped:
            for name in names:
                _shorten(self.folder / name, self.written)
        files = [*names, *([REDUCTION] if self.reduction.components is not None else [])]
        about |= {
            "shape": [self.written, *self.shape[1:]],
            "skipped": [(name, why) for _, name, why in self.skipped],
            "files": {name: file_digest(self.folder / name) for name in files},
        }
        write_atomically(self.folder / ABOUT, json.dumps(about).encode())
        (self.folder / PROGRESS).unlink()


def marker(folder: Path) -> dict[str, Any] | None:
    """How far an embedding that was interrupted is; None where none was begun."""
    if not (folder / PROGRESS).exists():
        return None
    try:
        state: dict[str, Any] = json.loads(read_regular(folder / PROGRESS).decode())
        return state | {"shape": tuple(state["shape"]), "skipped": [tuple(each) for each in state["skipped"]]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder / PROGRESS}: it says nothing of an embedding ({error}); remove the folder."
        ) from None


def _memmap(path: Path, mode: Any, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    if mode != "r+":
        return np.lib.format.open_memmap(path, mode, dtype, shape)
    try:
        found = np.lib.format.open_memmap(path, mode)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: it cannot be gone on with ({error}); remove the folder and embed again.") from None
    if found.shape != shape or found.dtype != dtype:
        raise ValueError(f"{path}: it is not the array that was begun; remove the folder and embed again.")
    return found


def _shorten(path: Path, rows: int) -> None:
    """The first ``rows`` of an array, in its place."""
    whole = np.lib.format.open_memmap(path, "r")
    if len(whole) == rows:  # it was shortened before the description was written
        return
    beside = path.with_name(f".{path.name}")
    short = np.lib.format.open_memmap(beside, "w+", whole.dtype, (rows, *whole.shape[1:]))
    for start in range(0, rows, _CHUNK):
        short[start : start + _CHUNK] = whole[start : min(start + _CHUNK, rows)]
    short.flush()
    del short, whole
    os.replace(beside, path)
