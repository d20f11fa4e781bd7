"""Samples that a saved model predicts for, and its answers as columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.cli.console import as_csv
from provenet.cli.models import load_for, source_of
from provenet.files import write_atomically


def read(estimator: Any, data: Path, header: bool | None) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Samples as the estimator takes them, what goes with them, and what its targets are called."""
    source = source_of(estimator.saved_, estimator, data)
    samples = load_for(estimator.saved_, data, source, with_targets=False, header=header)
    return samples.X, {"mask": samples.mask}, source.targets


def columns_of(answers: NDArray[Any], targets: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """One column an answer: (n,), (n, c), (n, s) for tokens, (n, s, c) for tokens with several outputs."""
    if answers.ndim == 1:
        return {"prediction": answers}
    if answers.ndim == 3:
        places = np.ndindex(answers.shape[1:])
        return {f"prediction({token},{k})": answers[:, token, k] for token, k in places}
    names = targets if len(targets) == answers.shape[1] else [str(k) for k in range(answers.shape[1])]
    return {f"prediction({name})": answers[:, k] for k, name in enumerate(names)}


def chances(found: NDArray[Any], labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """One column a class, or a token and class."""
    if found.ndim == 2:
        return {f"p({label})": found[:, k] for k, label in enumerate(labels)}
    return {f"p({token},{labels[k]})": found[:, token, k] for token, k in np.ndindex(found.shape[1:])}


def write(out: Path, columns: dict[str, NDArray[Any]], array: NDArray[Any]) -> None:
    if out.suffix.lower() == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(out, buffer.getvalue())
    else:
        write_atomically(out, as_table(columns).encode("utf-8"))


def as_table(columns: dict[str, NDArray[Any]]) -> str:
    return as_csv(columns, zip(*(column.tolist() for column in columns.values()), strict=True))
