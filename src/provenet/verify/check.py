"""The verdict on a network."""

from __future__ import annotations

import numpy as np

from provenet.verify.blocks import make_form
from provenet.verify.groups import Groups
from provenet.verify.losses import LOSSES, best_squared_scale, targets
from provenet.verify.norms import checked, squared_lengths
from provenet.verify.polar import polar
from provenet.verify.samples import Samples
from provenet.verify.types import Data, Statement, Verdict, Weights


def verify(data: Data, weights: Weights, statement: Statement) -> Verdict:
    """The objective of these weights on these data, and a bound below every network's of the statement."""
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

    polar_max, exact = polar(samples, groups, (w * theta).reshape(Y.shape), statement)
    largest = statement.beta / polar_max if polar_max > 0 else np.inf
    squared = statement.loss == "squared"
    tau = best_squared_scale(theta, Y.reshape(rows), w, largest) if squared else min(1.0, largest)
    return Verdict(primal, -float((w * conjugate(tau)).sum()), polar_max, exact)
