"""Samples as a command line asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.cli.console import warn
from provenet.cli.groups import FromFile
from provenet.data.large import load_in_shards
from provenet.data.loading import Columns, Dataset, load_dataset, split_rows
from provenet.data.mixed import Asked
from provenet.data.table import ColumnError

_OF_LIMIT = 0.05  # the part of a limit that a file may be, to be read whole: in float64 it may be many times larger


def load(file: FromFile, task: str, limit: int | None = None, holdout: float | None = None, seed: int = 0) -> Dataset:
    """``limit``: bytes of memory; NPY and Parquet files that would take much of it are gone over in shards.
    ``holdout``: fill values and categories are learnt of the other rows."""

    def trained_on(n: int) -> NDArray[np.intp]:
        return np.arange(n) if holdout is None else split_rows(range(n), holdout, seed)[0]

    columns = Columns(file.target, file.feature, file.drop, file.weight)
    sample = (file.tokens, -1) if file.tokens is not None else None if file.image is None else file.image.sizes
    asked = Asked(file.impute, file.one_hot)
    if limit is not None and file.data.suffix.lower() in (".npy", ".parquet") and _is_large(file, limit):
        if any(asked):
            raise ColumnError(f"{file.data}: it is larger than memory; nothing is filled or encoded, prepare it first.")
        return load_in_shards(file.data, columns, task, sample)
    read: dict[str, Any] = {"task": task, "header": file.header, "sample": sample}
    data = load_dataset(file.data, columns, **read, asked=asked, fit_rows=trained_on)
    for note in data.notes:
        warn(note)
    return data


def _is_large(file: FromFile, limit: int) -> bool:
    return file.data.stat().st_size > _OF_LIMIT * limit
