"""A fit on a terminal: a bar, and in words what went otherwise than asked."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from provenet.cli.console import warn
from provenet.cli.fitting import Fitting
from provenet.cli.progress import gap_bar
from provenet.data.shards import Shards
from provenet.estimators.base import ProvenEstimator
from provenet.estimators.scales import ScaleWarning, far_apart
from provenet.estimators.telling import watched


def warn_of_scales(fitting: Fitting) -> None:
    """Where nothing brings columns of a table to one scale."""
    estimator, names = fitting.estimator, fitting.feature_names
    if names is None or isinstance(fitting.data.X, Shards) or estimator.whiten or estimator._standardizes():
        return
    told = far_apart(fitting.data.X, 1, names)
    if told:
        warn(f"{told} Leave --no-standardize out, or bring them to one scale yourself.")


def train(
    estimator: ProvenEstimator,
    arrays: tuple[Any, Any, Any, Any],
    name: str = "fitting",
    *,
    seconds: float | None = None,
    quiet: bool = False,
    tell: bool = True,
) -> None:
    """Fit on arrays (X, y, weight, mask), with a bar on a terminal unless quiet; a fit that stops short is told in a
    line.  seconds: what is left of the estimator's limit, which is the whole command's.  tell: whether to say anything.
    """
    X, y, weight, mask = arrays
    asked = estimator.max_seconds
    estimator.set_params(max_seconds=seconds)
    with (
        gap_bar(estimator.tol, quiet or not tell, name) as bar,
        watched(estimator, bar.show, warn if tell else None, bar.count),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.simplefilter("ignore", ScaleWarning)  # `warn_of_scales` has names
        estimator.fit(X, y, sample_weight=weight, mask=mask)
    estimator.set_params(max_seconds=asked)
    for warning in caught if tell else ():
        warn(str(warning.message))
