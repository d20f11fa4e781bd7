"""Batches that pass by once, kept in a file: it can be gone over as often as needed, and read some rows at a time."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from provenet.data.parts import Mapped

Pair = tuple[NDArray[Any], Any]
"""X (b, …) and labels."""


class _Folder:
    """A temporary one, which goes, without a word, with the last who holds this."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="provenet-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def spooled(pairs: Iterable[Pair], what: str) -> tuple[Mapped, list[tuple[str, Any, int]]]:
    """All samples in one temporary file, which goes when nobody needs it any more; and the labels of each batch, with
    its name and length.  ``what`` a batch is called."""
    folder = _Folder()
    path, labels = Path(folder.name) / "X.bin", []
    shape: tuple[int, ...] | None = None
    dtype, n = np.dtype(np.float64), 0
    with path.open("wb") as file:
        for number, (X, y) in enumerate(pairs):
            name = f"{what} {number}"
            if len(X) == 0:
                continue
            if shape is None:
                shape, dtype = X.shape[1:], X.dtype
            check_alike(name, X.shape[1:], shape)
            try:
                np.ascontiguousarray(X, dtype=dtype).tofile(file)
            except OSError as error:
                raise OSError(f"{path}: {name} could not be kept on disk ({error}); set TMPDIR to another.") from None
            labels.append((name, y, len(X)))
            n += len(X)
    if shape is None:
        raise ValueError("X: there is no sample in it.")
    return Mapped(path, (n, *shape), dtype, 0, keeps=folder), labels


def check_alike(name: str, found: tuple[int, ...], first: tuple[int, ...]) -> None:
    if tuple(found) != tuple(first):
        raise ValueError(
            f"X: {name} has samples of shape {tuple(found)}, those before it of {tuple(first)}; all need the same."
        )


def batches_of(loader: Iterable[Any]) -> Iterator[Pair]:
    """Of a torch DataLoader, or anything that yields (X, y)."""
    for number, batch in enumerate(loader):
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            found = f"{len(batch)} parts" if isinstance(batch, (tuple, list)) else type(batch).__name__
            raise ValueError(f"X: batch {number} must be a pair (X, y), got {found}.")
        X, y = batch
        yield as_array(X, f"batch {number}"), y.detach().cpu().numpy() if isinstance(y, Tensor) else y


def parquet_rows(path: Path, features: list[str], targets: list[str]) -> Iterator[Pair]:
    """Row groups of a Parquet file, in parts: these columns as numbers, and the targets as they are."""
    parquet = _pyarrow(path)
    with parquet.ParquetFile(path) as file:
        numbers = np.result_type(*(_number_type(path, file.schema_arrow.field(name)) for name in features))
        for batch in file.iter_batches(columns=[*features, *targets]):
            X = np.empty((batch.num_rows, len(features)), dtype=numbers)
            for j, name in enumerate(features):
                X[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            y = [np.asarray(batch.column(name).to_pylist()) for name in targets]
            yield X, None if not y else y[0] if len(y) == 1 else np.stack(y, axis=1)


def parquet_columns(path: Path) -> list[str]:
    parquet = _pyarrow(path)
    with parquet.ParquetFile(path) as file:
        return list(file.schema_arrow.names)


def column_of_parquet(path: Path, name: str) -> NDArray[Any]:
    """Numbers as numbers where none is missing; anything else as Python objects, None where missing."""
    column = _pyarrow(path).read_table(path, columns=[name]).column(name)
    array: NDArray[Any] = column.to_numpy()
    return array if array.dtype.kind in "biuf" else np.array([*column.to_pylist(), None], dtype=object)[:-1]


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(f"{path}: reading Parquet needs the package pyarrow: pip install 'provenet[data]'.") from None
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    try:
        parquet.read_metadata(path)
    except (OSError, ValueError) as error:  # Arrow's own errors are ValueErrors
        raise ValueError(f"{path}: it is not a readable Parquet file ({error}).") from None
    return parquet


def _number_type(path: Path, field: Any) -> Any:
    """What holds a column's numbers; whole ones may be missing, and are then NaN."""
    try:
        dtype = np.dtype(field.type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise ValueError(f"{path}: column {field.name!r} holds {field.type}, not numbers; drop it, or encode it.")
    return dtype if dtype.kind == "f" else np.float32 if dtype.itemsize <= 2 else np.float64


def as_array(X: Any, name: str) -> NDArray[Any]:
    """Samples (n, …) of numbers, not copied where they are an array."""
    if isinstance(X, (str, os.PathLike)):
        raise ValueError(f"X: {name} is the name of a file; only NPY and Parquet files are read in shards.")
    array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise ValueError(f"X: {name} must be numbers of shape (n, …), it is {array.dtype} of shape {array.shape}.")
    return array
