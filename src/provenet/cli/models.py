"""Saved models and the columns they were fitted with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.data.loading import Source
from provenet.data.table import ColumnError
from provenet.io import SavedModel, load_model


def load_estimator(folder: Path) -> Any:
    _, estimator = load_model(folder)
    if estimator is None:
        raise ValueError(f"{folder}: it holds a network without an estimator; load it in Python with provenet.load.")
    return estimator


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
