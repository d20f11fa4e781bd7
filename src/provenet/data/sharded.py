"""What a user gives as data in shards: arrays, NPY and Parquet files, loaders, sequences of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from provenet.data.parts import Mapped, Part, Resident
from provenet.data.shards import Shards
from provenet.data.spool import as_array, batches_of, check_alike, parquet_columns, parquet_rows, spooled

PARQUET = (".parquet", ".pq")

Labels = list[tuple[str, Any, int]]
"""(name, labels, how many samples) of every shard."""


def comes_in_shards(X: Any) -> bool:
    """Whether X can only be read in shards: a file, a loader or generator, or pairs (X_i, y_i)."""
    if isinstance(X, (Shards, str, os.PathLike)):
        return True
    if hasattr(X, "__array__") or hasattr(X, "shape") or isinstance(X, dict):
        return False
    if not isinstance(X, (list, tuple)):
        return isinstance(X, Iterable)
    return any(_is_pair(one) for one in X)


def _is_pair(one: Any) -> bool:
    if not isinstance(one, (list, tuple)) or len(one) != 2:
        return False
    if isinstance(one[0], (str, os.PathLike)):  # a table of words is no list of files
        return Path(one[0]).suffix[1:2].isalpha()  # "0.5" is a number
    return getattr(one[0], "ndim", 0) >= 2


def as_shards(X: Any, Y: Any = None) -> tuple[Shards, Any]:
    """Samples in shards, and all their labels.

    X: an array, a tensor, what numpy has mapped, the path of an NPY file, with Y labels or the path of their file; the
    path of a Parquet file, with Y the names of the target columns, all others being features; or, without Y, pairs
    (X_i, y_i), X_i any of these, a torch DataLoader, or any iterable of pairs, which is gone over once and kept in a
    temporary file.
    """
    if isinstance(X, Shards):
        return X, _whole(Y, len(X))
    if isinstance(X, (str, os.PathLike)) and Path(X).suffix.lower() in PARQUET:
        return _from_parquet(Path(X), Y)
    if isinstance(X, (str, os.PathLike)) or hasattr(X, "shape") or hasattr(X, "__array__"):
        shards = Shards([_part(X, "X")])
        return shards, _whole(Y, len(shards))
    if Y is not None:
        raise ValueError("Y: shards (X_i, y_i) bring their own labels; leave it out.")
    if isinstance(X, (list, tuple)) and all(_is_pair(one) for one in X):
        return _from_pairs(X)
    if not isinstance(X, Iterable):
        raise ValueError(
            f"X: an array, a file, pairs (X_i, y_i) or a loader of them is needed, got {type(X).__name__}."
        )
    part, labels = spooled(batches_of(X), "batch")
    return Shards([part]), collected(labels)


def samples_in(path: str | os.PathLike[str]) -> Shards:
    """Samples without labels: of an NPY file, or all columns of a Parquet file."""
    if Path(path).suffix.lower() in PARQUET:
        return Shards([spooled(parquet_rows(Path(path), parquet_columns(Path(path)), []), "row group")[0]])
    return Shards([_part(path, "X")])


def _from_pairs(pairs: Sequence[Any]) -> tuple[Shards, Any]:
    parts: list[Part] = []
    labels: Labels = []
    for number, (X, y) in enumerate(pairs):
        part = _part(X, f"shard {number}")
        if len(part) == 0:
            continue
        if parts:
            check_alike(f"shard {number}", part.shape[1:], parts[0].shape[1:])
        parts.append(part)
        labels.append((f"shard {number}", y, len(part)))
    if not parts:
        raise ValueError("X: there is no sample in any shard.")
    return Shards(parts), collected(labels)


def _part(X: Any, name: str) -> Part:
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        if path.suffix.lower() != ".npy":
            raise ValueError(f"X: {path} is no NPY or Parquet file, which alone are read in shards.")
        part = Mapped.of_npy(path)
        if len(part.shape) < 2:
            raise ValueError(f"X: {path} must be of shape (n, …), it is {part.shape}.")
        return part
    array = as_array(X, name)
    return Mapped.of_map(array) or Resident(array, name)


def _from_parquet(path: Path, Y: Any) -> tuple[Shards, Any]:
    names = parquet_columns(path)
    targets = [Y] if isinstance(Y, str) else list(Y) if isinstance(Y, (list, tuple)) else []
    if not targets or not all(isinstance(name, str) for name in targets):
        raise ValueError(f"Y: for {path} it is the name of the target column, or several; it has {', '.join(names)}.")
    lost = [name for name in targets if name not in names]
    if lost:
        raise ValueError(f"Y: {path} has no column {lost[0]!r}; it has {', '.join(names)}.")
    features = [name for name in names if name not in targets]
    if not features:
        raise ValueError(f"X: {path} has no column beside the targets.")
    part, labels = spooled(parquet_rows(path, features, targets), "row group")
    part.name = str(path)
    return Shards([part]), collected(labels)


def _whole(Y: Any, n: int) -> Any:
    return collected([("Y", Y, n)])


def collected(labels: Labels) -> NDArray[Any]:
    """The labels of all shards, in order; a shard that lacks some is named."""
    found = [_checked(*one) for one in labels]
    if len({y.shape[1:] for y in found}) > 1:
        first = next(i for i, y in enumerate(found) if y.shape[1:] != found[0].shape[1:])
        raise ValueError(
            f"Y: the labels of {labels[first][0]} have shape {found[first].shape}, those of {labels[0][0]} "
            f"{found[0].shape}."
        )
    return found[0] if len(found) == 1 else np.concatenate(found)


def _checked(name: str, y: Any, n: int) -> NDArray[Any]:
    if y is None:
        raise ValueError(f"Y: the labels of {name} are missing; each of its {n} samples needs one.")
    if isinstance(y, (str, os.PathLike)):
        part = Mapped.of_npy(Path(y))
        y = part.read(0, len(part))
    array = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if array.ndim == 0 or len(array) != n:
        raise ValueError(f"Y: {name} has {n} samples, and labels of shape {array.shape}.")
    missing = _missing(array)
    if missing.any():
        raise ValueError(f"Y: in {name} the label of row {int(np.argmax(missing))} is missing.")
    return array


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows lack a label, or a part of one."""
    flat = y.reshape(len(y), -1)
    if y.dtype.kind == "O":
        return np.array([any(one is None or one != one for one in row) for row in flat])
    return np.isnan(flat).any(1) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)


def row_blocks(X: Tensor | Shards) -> Iterator[Tensor]:
    """All samples, as they are, or some at a time."""
    if isinstance(X, Shards):
        yield from (x for _, x in X.tiles())
    else:
        yield X
