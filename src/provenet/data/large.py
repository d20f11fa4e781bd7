"""Tables that are larger than memory: their targets are read, their features stay in the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data.loading import Columns, Dataset, Source, chosen_columns, sample_shape, targets_of, told
from provenet.data.parts import Mapped
from provenet.data.shards import Shards
from provenet.data.spool import column_of_parquet, parquet_columns, parquet_rows, spooled
from provenet.data.table import Table


def load_in_shards(path: Path, columns: Columns, task: str, sample: Sequence[int] | None) -> Dataset:
    """As `load_dataset`, for NPY and Parquet."""
    named = path.suffix.lower() != ".npy"
    whole = None if named else Mapped.of_npy(path)
    if whole is not None and len(whole.shape) != 2:
        raise ValueError(f"{path}: a table needs two dimensions, this array has shape {whole.shape}.")
    names = parquet_columns(path) if whole is None else [str(i) for i in range(whole.shape[1])]
    nothing: NDArray[Any] = np.empty(0)
    empty = Table(path, dict.fromkeys(names, nothing), np.arange(0), "row", named)
    source = chosen_columns(empty, columns)
    wanted = [*source.targets, *([source.weight] if source.weight else [])]
    read = {name: column_of_parquet(path, name) if whole is None else _column(whole, int(name)) for name in wanted}
    lines = np.arange(1, len(read[wanted[0]]) + 1)
    y, weights = targets_of(Table(path, read, lines, "row", named), source, task)
    part = _spooled(path, source) if whole is None else whole
    used = None if whole is None else np.array([int(name) for name in source.features])
    shaped = None if sample is None else sample_shape(path, (len(source.features),), sample)
    part = Mapped(path if whole is not None else part.path, part.whole, part.dtype, part.offset, used, shaped, part)
    part.name = str(path)
    rows = Table(path, dict.fromkeys(names, nothing), lines, "row", named)
    return Dataset(Shards([part]), y, weights, source, read=told(rows, source))


def _spooled(path: Path, source: Source) -> Mapped:
    return spooled(parquet_rows(path, list(source.features), []), "row group")[0]


def _column(part: Mapped, number: int) -> NDArray[Any]:
    return np.concatenate([rows[:, number].copy() for _, rows in part.tiles()])
