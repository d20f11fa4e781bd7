"""Tables that are larger than memory: their targets are read, their features stay in the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data.loading import Dataset, Source, chosen_columns, targets_of, told
from provenet.data.parts import Mapped
from provenet.data.shards import Shards
from provenet.data.spool import column_of_parquet, parquet_columns, parquet_rows, spooled
from provenet.data.table import ColumnError, Table


def load_in_shards(
    path: Path,
    targets: Sequence[str],
    features: Sequence[str],
    drop: Sequence[str],
    weight: str | None,
    task: str,
    sample: tuple[int, ...] | None,
) -> Dataset:
    """As `load_dataset`, for NPY and Parquet; ``sample``: the shape in which a row is read, -1 for what is left."""
    named = path.suffix.lower() != ".npy"
    whole = None if named else Mapped.of_npy(path)
    if whole is not None and len(whole.shape) != 2:
        raise ValueError(f"{path}: a table needs two dimensions, this array has shape {whole.shape}.")
    names = parquet_columns(path) if whole is None else [str(i) for i in range(whole.shape[1])]
    nothing: NDArray[Any] = np.empty(0)
    empty = Table(path, dict.fromkeys(names, nothing), np.arange(0), "row", named)
    source = chosen_columns(empty, targets, features, drop, weight)
    wanted = [*source.targets, *([source.weight] if source.weight else [])]
    read = {name: column_of_parquet(path, name) if whole is None else _column(whole, int(name)) for name in wanted}
    lines = np.arange(1, len(read[wanted[0]]) + 1)
    y, weights = targets_of(Table(path, read, lines, "row", named), source, task)
    part = _spooled(path, source) if whole is None else whole
    columns = None if whole is None else np.array([int(name) for name in source.features])
    shaped = None if sample is None else _shape(path, sample, len(source.features))
    part = Mapped(path if whole is not None else part.path, part.whole, part.dtype, part.offset, columns, shaped, part)
    part.name = str(path)
    rows = Table(path, dict.fromkeys(names, nothing), lines, "row", named)
    return Dataset(Shards([part]), y, weights, source, read=told(rows, source))


def _spooled(path: Path, source: Source) -> Mapped:
    return spooled(parquet_rows(path, list(source.features), []), "row group")[0]


def _column(part: Mapped, number: int) -> NDArray[Any]:
    return np.concatenate([rows[:, number].copy() for _, rows in part.tiles()])


def _shape(path: Path, sample: tuple[int, ...], numbers: int) -> tuple[int, ...]:
    known = math.prod(size for size in sample if size > 0)
    if numbers % known or (-1 not in sample and known != numbers):
        raise ColumnError(f"{path}: rows of {numbers} numbers cannot be read as {' × '.join(map(str, sample))}.")
    return tuple(numbers // known if size < 0 else size for size in sample)
