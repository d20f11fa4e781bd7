"""`provenet predict`: answers of a saved model."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from provenet.cli import options as o
from provenet.cli.console import as_csv, print_json, say
from provenet.cli.models import load_for, load_whole, samples_in, source_of
from provenet.files import write_atomically
from provenet.layerwise.base import Layerwise

_WRITTEN = (".csv", ".txt", ".npy")


def predict(
    folder: o.ModelFolder,
    data: o.DataFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", dir_okay=False, help="CSV or NPY file. (default: print CSV)")
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add a column with the probability of each class.")] = False,
    header: o.Header = None,
    json: o.Json = False,
) -> None:
    """Predict with a saved model, from the columns it was fitted with; a deep one reads X of an NPZ file.

    Example: provenet predict iris new-flowers.csv --out species.csv
    """
    if out is not None and out.suffix.lower() not in _WRITTEN:
        raise typer.BadParameter(
            f"{out.suffix or 'a file without an ending'} is not written; choose {' or '.join(_WRITTEN)}.",
            param_hint="--out",
        )
    estimator = load_whole(folder)
    if proba and not hasattr(estimator, "predict_proba"):
        raise typer.BadParameter("a regression has no probabilities.", param_hint="--proba")
    deep = isinstance(estimator, Layerwise)
    X, more, names = (samples_in(data), {}, ()) if deep else _read(estimator, data, header)
    answers = np.asarray(estimator.predict(X, **more))
    columns = _named_columns(answers, names)
    if proba:
        columns |= _chances(estimator.predict_proba(X, **more), estimator.classes_)
    if out is not None:
        _write(out, columns, answers if not proba else np.column_stack(list(columns.values())))
    if json:
        print_json({"out": None if out is None else str(out), **{name: c.tolist() for name, c in columns.items()}})
    elif out is None:
        sys.stdout.write(_csv(columns))
    else:
        say(f"{len(X)} predictions  {out}")


def _read(estimator: Any, data: Path, header: bool | None) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """Samples as the estimator takes them, what goes with them, and what its targets are called."""
    source = source_of(estimator.saved_, estimator, data)
    samples = load_for(estimator.saved_, data, source, with_targets=False, header=header)
    return samples.X, {"mask": samples.mask}, source.targets


def _named_columns(answers: NDArray[Any], targets: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """One column an answer: (n,), (n, c), (n, s) for tokens, (n, s, c) for tokens with several outputs."""
    if answers.ndim == 1:
        return {"prediction": answers}
    if answers.ndim == 3:
        places = np.ndindex(answers.shape[1:])
        return {f"prediction({token},{k})": answers[:, token, k] for token, k in places}
    names = targets if len(targets) == answers.shape[1] else [str(k) for k in range(answers.shape[1])]
    return {f"prediction({name})": answers[:, k] for k, name in enumerate(names)}


def _chances(chances: NDArray[Any], labels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """One column a class, or a token and class."""
    if chances.ndim == 2:
        return {f"p({label})": chances[:, k] for k, label in enumerate(labels)}
    return {f"p({token},{labels[k]})": chances[:, token, k] for token, k in np.ndindex(chances.shape[1:])}


def _write(out: Path, columns: dict[str, NDArray[Any]], array: NDArray[Any]) -> None:
    if out.suffix.lower() == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(out, buffer.getvalue())
    else:
        write_atomically(out, _csv(columns).encode("utf-8"))


def _csv(columns: dict[str, NDArray[Any]]) -> str:
    return as_csv(columns, zip(*(column.tolist() for column in columns.values()), strict=True))
