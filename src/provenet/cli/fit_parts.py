"""What `provenet fit` makes of its samples: those to train on, and those to judge by."""

from __future__ import annotations

import math
from typing import Any

import typer

from provenet import batches
from provenet.cli import options as o
from provenet.cli.fit_options import OfSamples
from provenet.cli.fitting import Fitting
from provenet.data.shards import Shards


def parted(
    context: typer.Context, samples: OfSamples, fitting: Fitting, seed: int, cv: int | None
) -> tuple[Fitting, Fitting | None]:
    """(to train on, to judge by, where some are kept out); wrong use, where there are too few or they lie apart."""
    X, name = fitting.data.X, fitting.path.name
    if fitting.task == "regression":
        o.refuse_if_given(context, "balanced", "a regression has no classes to weigh.")
    if isinstance(X, Shards) and (samples.holdout is not None or cv is not None):
        raise typer.BadParameter(
            f"rows of {name} are read in shards, and none are kept apart; leave it out.",
            param_hint="--holdout" if cv is None else "--cv",
        )
    if cv is not None and cv > len(X):
        raise typer.BadParameter(f"{cv} folds of {len(X)} rows cannot be made.", param_hint="--cv")
    kept_out = None
    if samples.holdout is not None:
        fitting, kept_out = fitting.held_out(samples.holdout, seed)
    rows, columns = fitting.data.X.shape[:2]
    if samples.whiten and rows > columns:
        raise typer.BadParameter(
            f"{rows} rows of {columns} columns cannot be whitened: XXᵀ = I needs no more rows than columns.",
            param_hint="--whiten",
        )
    return fitting, kept_out


def judged(seen: Fitting) -> tuple[Any, Any, Any]:
    """What a report judges a network by: all samples, or, of those in shards, some evenly spaced ones."""
    X, y = seen.data.X, seen.y
    if not isinstance(X, Shards):
        return X, y, seen.data.mask
    rows = batches.count(math.prod(X.shape[1:]), batches.BATCH)
    return X.spaced(rows).numpy(), y[:: X.stride(rows)], None
