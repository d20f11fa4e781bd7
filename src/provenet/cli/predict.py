"""`provenet predict`: answers of a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from provenet.cli import importing
from provenet.cli import options as o
from provenet.cli.console import print_json, say

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
    with importing():
        import numpy as np

        from provenet.cli.models import load_whole, samples_in
        from provenet.cli.predictions import as_table, chances, columns_of, read, write
        from provenet.layerwise.base import Layerwise
    estimator = load_whole(folder)
    if proba and not hasattr(estimator, "predict_proba"):
        raise typer.BadParameter("a regression has no probabilities.", param_hint="--proba")
    deep = isinstance(estimator, Layerwise)
    X, more, names = (samples_in(data), {}, ()) if deep else read(estimator, data, header)
    answers = np.asarray(estimator.predict(X, **more))
    columns = columns_of(answers, names)
    if proba:
        columns |= chances(estimator.predict_proba(X, **more), estimator.classes_)
    if out is not None:
        write(out, columns, answers if not proba else np.column_stack(list(columns.values())))
    if json:
        print_json({"out": None if out is None else str(out), **{name: c.tolist() for name, c in columns.items()}})
    elif out is None:
        sys.stdout.write(as_table(columns))
    else:
        say(f"{len(X)} predictions  {out}")
