"""Files → samples, targets, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data.table import ColumnError, Table, read_arrays, read_table

_MOST_CLASSES = 20  # a column with more distinct whole numbers than this is taken for a measurement


@dataclass(frozen=True)
class Dataset:
    """X (n, d), y (n,) or (n, c) or None, weight (n,) or None, and where they stand in the file."""

    X: NDArray[np.float64]
    y: NDArray[Any] | None
    weight: NDArray[np.float64] | None
    source: Source


@dataclass(frozen=True)
class Source:
    """The names (or positions, or NPZ keys) of the columns a dataset is made of."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"features": list(self.features), "targets": list(self.targets), "weight": self.weight}

    @staticmethod
    def from_dict(saved: Any) -> Source:
        return Source(tuple(saved["features"]), tuple(saved["targets"]), saved.get("weight"))


def load_dataset(
    path: str | Path,
    targets: Sequence[str] = (),
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    weight: str | None = None,
    task: str = "auto",
    header: bool | None = None,
) -> Dataset:
    """A dataset to train on.

    ``targets``: the columns to predict, by name or position.  ``features``: the columns to predict from, all others
    but the targets, the ``weight`` column and those of ``drop`` if not given.  ``task``: "classification" keeps labels
    as they are, "regression" reads numbers, "auto" reads what is there.  NPZ files hold arrays X and y, or another key
    for y in ``targets``.  ColumnError for columns that are not there, ValueError for contents that are no data.
    """
    if Path(path).suffix.lower() == ".npz":
        return _load_npz(Path(path), targets, weight, features, drop)
    table = read_table(path, header)
    if not targets:
        raise ColumnError(f"{path}: say which column to predict; it has {', '.join(map(repr, table.columns))}.")
    named = [table.resolve(name) for name in targets]
    weighed = None if weight is None else table.resolve(weight)
    left_out = {*named, weighed, *(table.resolve(name) for name in drop)}
    used = [table.resolve(name) for name in features] or [name for name in table.columns if name not in left_out]
    overlap = sorted(set(used) & {*named, weighed})
    if overlap:
        raise ColumnError(f"{path}: column {overlap[0]!r} cannot be a feature and a target or weight at once.")
    if not used:
        raise ColumnError(f"{path}: no column is left to predict from.")
    return _from_table(table, Source(tuple(used), tuple(named), weighed), task)


def load_like(
    path: str | Path, source: Source, *, with_targets: bool, task: str = "auto", header: bool | None = None
) -> Dataset:
    """The same columns from another file: of a model's own data (``with_targets``), or of new samples.

    A file without names that has as many columns as there are features is taken as the features alone.
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        arrays = read_arrays(path)
        targets = source.targets if with_targets else ()
        return _from_arrays(path, arrays, Source(source.features, targets, source.weight if with_targets else None))
    table = read_table(path, header)
    if not with_targets and not table.named and len(table.columns) == len(source.features):
        source = Source(tuple(table.columns), ())
    wanted = source if with_targets else Source(source.features, ())
    for name in (*wanted.features, *wanted.targets, *((wanted.weight,) if wanted.weight else ())):
        if name not in table.columns:
            raise ColumnError(
                f"{path}: column {name!r}, which the model was fitted with, is missing; "
                f"it has {', '.join(map(repr, table.columns))}."
            )
    return _from_table(table, wanted, task)


def guess_task(y: NDArray[Any]) -> str:
    """Text, booleans and few whole numbers are classes; several columns, fractions, many numbers are measurements."""
    if y.ndim > 1:
        return "regression"
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = y.dtype.kind in "iu" or bool((y == np.round(y)).all())
    distinct = len(np.unique(y))
    return "classification" if whole and distinct <= min(_MOST_CLASSES, max(2, len(y) // 2)) else "regression"


def _from_table(table: Table, source: Source, task: str) -> Dataset:
    X = np.stack([table.numbers(name) for name in source.features], axis=1)
    y: NDArray[Any] | None = None
    if len(source.targets) == 1:
        (name,) = source.targets
        y = table.numbers(name) if task == "regression" else table.labels(name)
    elif source.targets:
        y = np.stack([table.numbers(name) for name in source.targets], axis=1)
    return Dataset(X, y, None if source.weight is None else table.numbers(source.weight), source)


def _load_npz(path: Path, targets: Sequence[str], weight: str | None, *columns: Sequence[str]) -> Dataset:
    if any(columns):
        raise ColumnError(f"{path}: an NPZ file has no columns to choose from; its X is used whole.")
    if len(targets) > 1:
        raise ColumnError(f"{path}: an NPZ file has one array of targets; give its key.")
    arrays = read_arrays(path)
    return _from_arrays(path, arrays, Source(("X",), tuple(targets) or ("y",), weight))


def _from_arrays(path: Path, arrays: dict[str, NDArray[Any]], source: Source) -> Dataset:
    for key in (*source.features, *source.targets, *((source.weight,) if source.weight else ())):
        if key not in arrays:
            raise ColumnError(f"{path}: there is no array {key!r}; it has {', '.join(map(repr, arrays))}.")
    X = arrays[source.features[0]]
    if X.dtype.kind not in "biuf" or X.ndim < 2:
        raise ValueError(f"{path}: X must be numbers of shape (n, d), it is {X.dtype} of shape {X.shape}.")
    y = arrays[source.targets[0]] if source.targets else None
    weight = arrays[source.weight].astype(np.float64) if source.weight else None
    return Dataset(X.astype(np.float64), y, weight, source)
