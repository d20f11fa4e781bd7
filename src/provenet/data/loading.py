"""Files → samples, targets, weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data.arrays import read_arrays
from provenet.data.cells import like_identifiers
from provenet.data.mixed import Asked, Preparation
from provenet.data.table import UNNAMED, ColumnError, Table, listed, read_table

_MOST_CLASSES = 20  # a column with more distinct whole numbers than this is taken for a measurement


@dataclass(frozen=True)
class Columns:
    """As a user calls them, by name or position: those to predict, and those to predict from, if none are named all but
    the targets, the weights and those that are dropped.  Of an NPZ file ``targets`` is another key for y."""

    targets: Sequence[str] = ()
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    weight: str | None = None


@dataclass(frozen=True)
class Dataset:
    """X (n, …), an array or `Shards`, y (n,) or (n, …) or None, weight (n,) or None, where they stand in the file, mask
    (n, s) or None."""

    X: Any
    y: NDArray[Any] | None
    weight: NDArray[np.float64] | None
    source: Source
    mask: NDArray[Any] | None = None
    read: str = ""  # which rows and columns of a table these are, in words
    notes: tuple[str, ...] = ()  # what a person should know of them

    def split(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """(to train on, to judge by): the same rows for the same targets, share and seed."""
        train, test = split_rows(self.y, share, seed)
        return self.rows(train), self.rows(test)

    def rows(self, rows: NDArray[np.intp]) -> Dataset:
        """Some of the samples."""
        y, weight, mask = (None if part is None else part[rows] for part in (self.y, self.weight, self.mask))
        return replace(self, X=self.X[rows], y=y, weight=weight, mask=mask)


@dataclass(frozen=True)
class Source:
    """The names (or positions, or NPZ keys) of the columns a dataset is made of."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    weight: str | None = None
    prepared: Preparation | None = None  # what is done to features that are not all numbers

    @property
    def names(self) -> list[str]:
        """Of the columns of X."""
        return list(self.features) if self.prepared is None else self.prepared.names

    def to_dict(self) -> dict[str, Any]:
        told = {"features": list(self.features), "targets": list(self.targets), "weight": self.weight}
        return told if self.prepared is None else told | {"prepared": self.prepared.to_dict()}

    @staticmethod
    def from_dict(saved: Any) -> Source:
        prepared = saved.get("prepared")
        prepared = None if prepared is None else Preparation.from_dict(prepared)
        return Source(tuple(saved["features"]), tuple(saved["targets"]), saved.get("weight"), prepared)


def split_rows(y: Any, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to judge by, a ``share`` of all, in the order of the file."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = min(max(round(share * len(y)), 1), len(y) - 1)
    return np.sort(order[cut:]), np.sort(order[:cut])


def load_dataset(
    path: str | Path,
    columns: Columns = Columns(),  # noqa: B008  # frozen
    *,
    task: str = "auto",
    header: bool | None = None,
    sample: Sequence[int] | None = None,
    asked: Asked = Asked(),  # noqa: B008  # a tuple
    fit_rows: Callable[[int], NDArray[np.intp]] = np.arange,
) -> Dataset:
    """A dataset to train on.

    ``task``: "classification" keeps labels as they are, "regression" reads numbers, "auto" reads what is there.  NPZ
    files hold arrays X and y, and may hold a ``mask`` of tokens.  ``sample``: the shape in which a row is read, of an
    image (channels, …), or (tokens, -1) for so many, one after the other.  ``asked``: what may be done to columns that
    are not all numbers; it is learnt of the rows that ``fit_rows`` names, of how many there are.  ColumnError for
    columns that are not there and shapes that do not fit, ValueError for contents that are no data.
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        if any(asked):
            raise ColumnError(f"{path}: an NPZ file has numbers only; nothing is filled or encoded.")
        data = _load_npz(path, columns)
    else:
        table = read_table(path, header)
        source = chosen_columns(table, columns)
        if any(asked):
            prepared = Preparation.fit(table, source.features, asked, fit_rows(table.n_rows))
            source = replace(source, prepared=prepared)
        data = _from_table(table, source, task)
        data = replace(data, notes=(*data.notes, *_notes_of_identifiers(table, source.features)))
    return data if sample is None else replace(data, X=_shaped(path, data.X, sample))


def chosen_columns(table: Table, columns: Columns) -> Source:
    """What a user calls these columns, as the table calls them."""
    path, targets, weight = table.path, columns.targets, columns.weight
    if not targets:
        raise ColumnError(f"{path}: say which column to predict (--target NAME); it has {listed(table.columns)}.")
    named = [table.resolve(name) for name in targets]
    weighed = None if weight is None else table.resolve(weight)
    dropped = [table.resolve(name) for name in columns.drop]
    for name in named:
        if named.count(name) > 1 or name in dropped:
            raise ColumnError(f"{path}: column {name!r} is to be predicted; name it once, and do not leave it out.")
    left_out = {*named, weighed, *dropped}
    if UNNAMED in table.columns and like_identifiers(table.columns[UNNAMED], fewest=1):
        left_out.add(UNNAMED)  # numbers or names of rows, as pandas and R write them, say nothing of a row
    used = [table.resolve(name) for name in columns.features]
    used = used or [name for name in table.columns if name not in left_out]
    overlap = sorted(set(used) & {*named, weighed})
    if overlap:
        raise ColumnError(f"{path}: column {overlap[0]!r} cannot be a feature and a target or weight at once.")
    if not used:
        raise ColumnError(f"{path}: no column is left to predict from.")
    return Source(tuple(used), tuple(named), weighed)


def _notes_of_identifiers(table: Table, features: Sequence[str]) -> list[str]:
    found = {name: like_identifiers(table.columns[name]) for name in features}
    return [
        f"column {name!r} has another {kind} in every row, as identifiers do, which say nothing of new rows; if it is "
        f"one, leave it out (--drop {name})."
        for name, kind in found.items()
        if kind
    ]


def load_like(
    path: str | Path,
    source: Source,
    *,
    with_targets: bool,
    task: str = "auto",
    header: bool | None = None,
    shape: tuple[int, ...] = (),
) -> Dataset:
    """The same columns from another file: of a model's own data (``with_targets``), or of new samples.

    A file without names that has as many columns as there are features is taken as the features alone.  ``shape``:
    rows are read as samples of this shape.
    """
    path = Path(path)
    data = _load_like(path, source, with_targets, task, header)
    return replace(data, X=_shaped(path, data.X, shape)) if data.X.ndim == 2 and len(shape) > 1 else data


def _load_like(path: Path, source: Source, with_targets: bool, task: str, header: bool | None) -> Dataset:
    if path.suffix.lower() == ".npz":
        arrays = read_arrays(path)
        targets = source.targets if with_targets else ()
        return _from_arrays(path, arrays, Source(source.features, targets, source.weight if with_targets else None))
    table = read_table(path, header)
    if not with_targets and not table.named and len(table.columns) == len(source.features):
        table = replace(table, columns=dict(zip(source.features, table.columns.values(), strict=True)))
    wanted = source if with_targets else replace(source, targets=(), weight=None)
    for name in (*wanted.features, *wanted.targets, *((wanted.weight,) if wanted.weight else ())):
        if name not in table.columns:
            raise ColumnError(
                f"{path}: column {name!r}, which the model was fitted with, is missing; it has {listed(table.columns)}."
            )
    return _from_table(table, wanted, task)


def guess_task(y: NDArray[Any], tokens: bool = False) -> str:
    """Text, booleans and few whole numbers are classes; several columns, fractions, many numbers are measurements.

    With ``tokens`` y (n, s) has an entry a token, and is judged as one column would be.
    """
    if tokens and y.ndim == 2:
        y = y.ravel()
    if y.ndim > 1:
        return "regression"
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = y.dtype.kind in "iu" or bool((y == np.round(y)).all())
    distinct = len(np.unique(y))
    return "classification" if whole and distinct <= min(_MOST_CLASSES, max(2, len(y) // 2)) else "regression"


def _from_table(table: Table, source: Source, task: str) -> Dataset:
    X, notes = (table.matrix(source.features), []) if source.prepared is None else source.prepared.apply(table)
    y, weight = targets_of(table, source, task)
    return Dataset(X, y, weight, source, read=told(table, source), notes=tuple(notes))


def targets_of(table: Table, source: Source, task: str) -> tuple[NDArray[Any] | None, NDArray[np.float64] | None]:
    """Targets and weights."""
    y: NDArray[Any] | None = None
    if len(source.targets) == 1:
        (name,) = source.targets
        y = _measured(table, name) if task == "regression" else table.labels(name)
    elif source.targets:
        y = table.matrix(source.targets)
    return y, None if source.weight is None else table.weights(source.weight)


def _measured(table: Table, name: str) -> NDArray[np.float64]:
    """Numbers to predict; what is said of columns to predict from, to encode or to drop them, is no advice here."""
    try:
        return table.numbers(name)
    except ValueError as error:
        wrong = str(error).split(";")[0]
        raise ValueError(f"{wrong}; a regression needs numbers: mend it, or use --task classification.") from None


def told(table: Table, source: Source) -> str:
    """Which rows and columns were used."""
    names = "with names" if table.named else "without names"
    first, last = table.lines[0], table.lines[-1]
    lines = f"{table.line_word} {first}" if first == last else f"{table.line_word}s {first} to {last}"
    rows = f"{_counted(table.n_rows, 'row')} ({lines}, {names})"
    target = f", target {listed(source.targets, 6)}" if source.targets else ""
    made = "" if source.prepared is None else f" → {len(source.names)} numbers"
    return f"{rows}, {_counted(len(source.features), 'feature')} ({listed(source.features, 6)}){made}{target}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _load_npz(path: Path, columns: Columns) -> Dataset:
    targets = columns.targets
    if columns.features or columns.drop:
        raise ColumnError(f"{path}: an NPZ file has no columns to choose from; its X is used whole.")
    if len(targets) > 1:
        raise ColumnError(f"{path}: an NPZ file has one array of targets; give its key.")
    arrays = read_arrays(path)
    return _from_arrays(path, arrays, Source(("X",), tuple(targets) or ("y",), columns.weight))


def _from_arrays(path: Path, arrays: dict[str, NDArray[Any]], source: Source) -> Dataset:
    for key in (*source.features, *source.targets, *((source.weight,) if source.weight else ())):
        if key not in arrays:
            raise ColumnError(f"{path}: there is no array {key!r}; it has {', '.join(map(repr, arrays))}.")
    X = arrays[source.features[0]]
    if X.dtype.kind not in "biuf" or X.ndim < 2:
        raise ValueError(f"{path}: X must be numbers of shape (n, d), it is {X.dtype} of shape {X.shape}.")
    y = arrays[source.targets[0]] if source.targets else None
    weight = arrays[source.weight].astype(np.float64) if source.weight else None
    for name in (*source.targets, source.weight, "mask"):
        if name in arrays and arrays[name].shape[:1] != X.shape[:1]:
            raise ValueError(f"{path}: X has {len(X)} samples, and {name} is of shape {arrays[name].shape}.")
    X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)  # large float32 data stay as they are
    used = [name for name in (*source.features, *source.targets, source.weight, "mask") if name in arrays]
    read = f"arrays {', '.join(f'{name} ({_times(arrays[name].shape)})' for name in used)}"
    return Dataset(X, y, weight, source, arrays.get("mask"), read=read)


def _shaped(path: Path, X: NDArray[Any], sample: Sequence[int]) -> NDArray[Any]:
    """(n, numbers) as samples of this shape; those that have it as they are."""
    return X.reshape(len(X), *sample_shape(path, X.shape[1:], sample))


def sample_shape(path: Path, found: Sequence[int], sample: Sequence[int]) -> tuple[int, ...]:
    """The shape in which samples of shape ``found`` are read, -1 in ``sample`` standing for what is left."""
    if len(found) == len(sample) and all(size in (-1, own) for size, own in zip(sample, found, strict=True)):
        return tuple(found)
    known, numbers = math.prod(size for size in sample if size > 0), math.prod(found)
    if len(found) != 1 or numbers % known or (-1 not in sample and known != numbers):
        what = f"rows of {numbers} numbers" if len(found) == 1 else f"samples of shape {_times(found)}"
        asked = f"{sample[0]} tokens of equal size" if -1 in sample else f"{_times(sample)} = {known}"
        raise ColumnError(f"{path}: {what} cannot be read as {asked}.")
    return tuple(numbers // known if size < 0 else size for size in sample)


def _times(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes))
