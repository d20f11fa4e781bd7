"""Where a module's samples come from: arrays or a loader, as raw batches that can be gone over again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet import batches
from provenet.data.validation import as_weights

Raw = tuple[Any, ...]


def as_source(data: Any, sample_weight: Any) -> tuple[Iterable[Any], Tensor | None]:
    """Raw batches, as often as asked, and the weights of their samples."""
    if _is_arrays(data):
        if any(hasattr(part, "toarray") for part in data):
            raise ValueError("data: sparse arrays are not supported; give X.toarray().")
        weight = as_weights(sample_weight, len(data[0]))
        if weight is None or bool((weight > 0).all()):
            return Chunks.of(tuple(data)), weight
        return Chunks.of(tuple(data), weight > 0), weight[weight > 0]
    if sample_weight is not None:
        raise ValueError("sample_weight: it goes with arrays (X, Y), not with a loader.")
    if isinstance(data, Iterator):
        raise ValueError(
            "data: an iterator or generator can be gone over once, and more than one pass is needed; give the loader "
            "itself, a list of batches, or arrays (X, Y)."
        )
    if isinstance(data, (Tensor, np.ndarray, str, dict)) or not isinstance(data, Iterable):
        raise ValueError(f"data: arrays (X, Y) or batches of them are needed, got {type(data).__name__}.")
    return data, None


def sample_shape(source: Iterable[Any]) -> tuple[int, ...]:
    """The shape of a sample, as far as the first batch tells; what is wrong with it is told later."""
    batch = next(iter(source), None)
    X = batch[0] if isinstance(batch, (tuple, list)) and batch else None
    return tuple(getattr(X, "shape", ()))[1:]


def _is_arrays(data: Any) -> bool:
    """Whether data are (X, Y) or (X, Y, mask) themselves, not batches of them."""
    return isinstance(data, (tuple, list)) and len(data) in (2, 3) and all(hasattr(part, "shape") for part in data)


@dataclass(frozen=True)
class Chunks:
    """Arrays (X, Y) or (X, Y, mask), some samples at a time; with ``used`` (n,) bool only those."""

    arrays: Raw
    used: Tensor | None = None

    @classmethod
    def of(cls, arrays: Raw, used: Tensor | None = None) -> Chunks:
        parts = tuple(part if isinstance(part, (Tensor, np.ndarray)) else np.asarray(part) for part in arrays)
        lengths = [len(part) if part.ndim else 0 for part in parts]
        if len(set(lengths)) > 1:
            names = ("X", "Y", "mask")[: len(parts)]
            found = ", ".join(f"{name} {length}" for name, length in zip(names, lengths, strict=True))
            raise ValueError(f"data: all arrays need the same number of samples, got {found}.")
        return cls(parts, used)

    def __iter__(self) -> Iterator[Raw]:
        X = self.arrays[0]
        n = len(X)
        size = batches.count(int(np.prod(X.shape[1:])), batches.PASS)
        for i in range(0, n, size):
            rows: Any = slice(i, min(i + size, n))
            if self.used is not None:
                rows = i + torch.nonzero(self.used[rows]).flatten().numpy()
                if not len(rows):
                    continue
            yield tuple(part[rows] for part in self.arrays)


class Flattened:
    """Batches (X, …) with X (b, …) as (b, d)."""

    def __init__(self, source: Iterable[Any]):
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        for raw in self.source:
            X = raw[0] if isinstance(raw, (tuple, list)) and raw else None
            yield raw if X is None or len(np.shape(X)) < 2 else (X.reshape(len(X), -1), *raw[1:])
