"""The verdict on a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.verify.blocks import make_form
from provenet.verify.groups import Groups
from provenet.verify.losses import LOSSES, admissible, best_squared_scale, targets
from provenet.verify.losses import conjugate as conjugate_of
from provenet.verify.norms import checked, squared_lengths
from provenet.verify.polar import polar
from provenet.verify.samples import Samples
from provenet.verify.types import Data, Statement, Verdict, Weights

Array = NDArray[np.float64]


def verify(data: Data, weights: Weights, statement: Statement, dual: Any = None) -> Verdict:
    """The objective of these weights on these data, and a bound below every network's of the statement.

    dual, like Y: a dual point Θ that may prove more than the gradient of the loss at the network; the better counts.
    """
    X, Y, w, mask = data.used()
    samples = Samples(make_form(statement.block, X.shape, statement.settings), X, mask, statement.readout)
    groups = Groups(weights, statement, X.shape[-1])
    groups.check_sizes(*samples.weight_sizes(groups))

    prediction = samples.predictions(groups, statement.relu)
    if not np.isfinite(prediction).all():
        raise ValueError("first, second: the network's outputs on X are not finite; there is nothing to verify.")
    Y = targets(Y, statement.loss, prediction.shape[-1], tokens=statement.readout == "tokens")
    if Y.shape != prediction.shape:
        raise ValueError(f"Y: it has shape {Y.shape}, the network's outputs {prediction.shape}.")
    w = samples.row_weights(w)
    rows = (-1, Y.shape[-1])
    value, theta, conjugate = LOSSES[statement.loss](prediction.reshape(rows), Y.reshape(rows), statement.delta)
    norms = checked(statement.penalty)
    decay = squared_lengths(groups.first, norms[0]) + squared_lengths(groups.second, norms[1])
    primal = float((w * value).sum()) + statement.beta / 2 * decay

    def bound(slope: Array, at: float) -> float:
        """τ for Θ with polars of at most ``at``."""
        largest = statement.beta / at if at > 0 else np.inf
        squared = statement.loss == "squared"
        return best_squared_scale(slope, Y.reshape(rows), w, largest) if squared else min(1.0, largest)

    polar_max, exact = polar(samples, groups, (w * theta).reshape(Y.shape), statement)
    best = -float((w * conjugate(bound(theta, polar_max))).sum())
    if dual is not None:
        other = np.asarray(dual, dtype=np.float64)
        if other.shape != Y.shape or not np.isfinite(other).all():
            raise ValueError(f"dual: finite numbers of the targets' shape {Y.shape} are needed, got {other.shape}.")
        other = admissible(statement.loss, other.reshape(rows), Y.reshape(rows)).reshape(Y.shape)
        other_max, other_exact = polar(samples, groups, other, statement)
        apart = np.divide(other.reshape(rows), w, out=np.zeros_like(theta), where=w > 0)
        scaled = bound(apart, other_max) * apart
        lower = -float((w * conjugate_of(statement.loss, scaled, Y.reshape(rows), statement.delta)).sum())
        if lower > best:
            best, exact = lower, other_exact
    return Verdict(primal, best, polar_max, exact)
