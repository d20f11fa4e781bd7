"""Saved models and the columns they were fitted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.cli.blocks import check_mask
from provenet.cli.console import warn
from provenet.data.arrays import read_arrays
from provenet.data.loading import Dataset, Source, load_like
from provenet.data.table import ColumnError
from provenet.io import SavedModel, load, load_model
from provenet.layerwise.base import Layerwise


def load_estimator(folder: Path) -> Any:
    _, estimator = load_model(folder)
    if estimator is None:
        raise ValueError(f"{folder}: it holds a network without an estimator; load it in Python with provenet.load.")
    return estimator


def load_whole(folder: Path) -> Any:
    """The estimator in a folder, or a deep one of stages."""
    whole = load(folder)
    return whole if isinstance(whole, Layerwise) else load_estimator(folder)


def samples_in(path: Path) -> Any:
    """X of an NPZ file, as deep networks read it."""
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{path}: a deep network reads its samples from an NPZ file, as X.")
    held = read_arrays(path)
    if "X" not in held:
        raise ValueError(f"{path}: X is missing; it holds {', '.join(held)}.")
    return held["X"]


def source_of(model: SavedModel, estimator: Any, path: Path) -> Source:
    """Which columns of ``path`` the model means: those it was fitted with, or X and y of an NPZ file."""
    if "features" in model.source:
        return Source.from_dict(model.source)
    if path.suffix.lower() == ".npz":
        return Source(("X",), ("y",))
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return Source(tuple(map(str, names)), ())
    raise ColumnError(
        f"{path}: the model was fitted in Python and does not know its columns; give an NPZ file with X and y instead."
    )


def shape_of(model: SavedModel) -> tuple[int, ...]:
    """The shape of a sample the model was fitted on: rows of a file are read so."""
    return tuple(model.data["samples"][1:])


def load_for(model: SavedModel, path: Path, source: Source, **options: Any) -> Dataset:
    """Samples of ``path`` that the model can take; samples of another shape, or a mask it has no use for, are not."""
    data = load_like(path, source, shape=shape_of(model), **options)
    found, known = data.X.shape[1:], shape_of(model)
    tokens_vary = model.statement.block.masks and len(found) == 2 and found[1] == known[-1]
    if found != known and not tokens_vary:
        raise ColumnError(f"{path}: its samples have shape {tuple(found)}, the model was fitted on {known}.")
    check_mask(path, model.statement.block, data.mask)
    for note in data.notes:
        warn(note)
    return data
