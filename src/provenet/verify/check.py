"""The verdict on a network."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from provenet.verify import intercept
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

    Parameters
    ----------
    data : Data
        Samples and targets.
    weights : Weights
        The network.
    statement : Statement
        What is claimed of it.
    dual : array like Y, optional
        A dual point Θ that may prove more than the gradient of the loss at the network; the better counts.
    """
    X, Y, w, mask = data.used()
    if statement.standard is not None:
        X = statement.standard.samples(X, mask, images=statement.block == "cnn")
        Y = statement.standard.targets(Y, mask, tokens=statement.readout == "tokens")
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
    norms = checked(statement.penalty)
    decay = squared_lengths(groups.first, norms[0]) + squared_lengths(groups.second, norms[1])
    if dual is not None:
        dual = np.asarray(dual, dtype=np.float64)
        if dual.shape != Y.shape or not np.isfinite(dual).all():
            raise ValueError(f"dual: finite numbers of the targets' shape {Y.shape} are needed, got {dual.shape}.")
        dual = dual.reshape(rows)
    judge = _Judge(samples, groups, statement, Y.reshape(rows), w)
    own = _bias(weights, statement, Y.shape[-1])
    if statement.free_intercept:
        value, found, polar_max = judge.with_intercept(prediction.reshape(rows), own, dual)
    else:
        value, found, polar_max = judge.plainly(prediction.reshape(rows), dual)
    return Verdict(value + statement.beta / 2 * decay, found.lower, polar_max, found.exact)


class _Bound(NamedTuple):
    """A bound of every network's objective, and whether the polar it rests on is the number itself."""

    lower: float
    exact: bool


class _Judge:
    """The bounds that points Θ prove: Y (r, c) and w (r, 1), the weights of its rows."""

    def __init__(self, samples: Samples, groups: Groups, statement: Statement, Y: Array, w: Array) -> None:
        self.samples, self.groups, self.statement, self.Y, self.w = samples, groups, statement, Y, w

    def plainly(self, prediction: Array, dual: Array | None) -> tuple[float, _Bound, float]:
        """The loss, the better bound of the gradient there and of ``dual``, and the gradient's polar."""
        said = self.statement
        value, theta, conjugate = LOSSES[said.loss](prediction, self.Y, said.delta)
        polar_max, exact = self._polar(self.w * theta)
        best = _Bound(-float((self.w * conjugate(self._scale(theta, self.Y, polar_max))).sum()), exact)
        if dual is not None:
            best = max(self._proven(admissible(said.loss, dual, self.Y, self.w), self.Y)[0], best)
        return float((self.w * value).sum()), best, polar_max

    def with_intercept(self, prediction: Array, own: Array, dual: Array | None) -> tuple[float, _Bound, float]:
        """The same with a free intercept, the network's ``own`` (c,) in the loss; and the best b for the gradient."""
        said, there = self.statement, self.w[:, 0] > 0
        Y, w, f = self.Y[there], self.w[there], prediction[there]
        shared = intercept.common(Y, said.loss)
        Y = Y - shared
        value = LOSSES[said.loss](f + (own - shared), Y, said.delta)[0]
        b = intercept.best(f, Y, w, said.loss, said.delta, own - shared)
        points = [w * LOSSES[said.loss](f + b, Y, said.delta)[1]]
        if dual is not None:
            points.append(admissible(said.loss, dual[there], Y, w))
        judged = []
        for point in points:
            theta, targets = np.zeros_like(prediction), np.zeros_like(prediction)
            even, targets[there] = intercept.balanced(point, Y, w, said.loss, said.delta), Y
            if intercept.sums_to_zero(even):  # zero, which proves something too, where that was beyond it
                theta[there] = even
            judged.append(self._proven(theta, targets))
        return float((w * value).sum()), max(bound for bound, _ in judged), judged[0][1]

    def _proven(self, theta: Array, Y: Array) -> tuple[_Bound, float]:
        """What Θ (r, c) proves for the targets, and its polar."""
        polar_max, exact = self._polar(theta)
        apart = np.divide(theta, self.w, out=np.zeros_like(theta), where=self.w > 0)
        scaled = self._scale(apart, Y, polar_max) * apart
        conjugate = conjugate_of(self.statement.loss, scaled, Y, self.statement.delta)
        return _Bound(-float((self.w * conjugate)[self.w[:, 0] > 0].sum()), exact), polar_max

    def _polar(self, theta: Array) -> tuple[float, bool]:
        shape = (len(self.samples.X), -1, theta.shape[1]) if self.statement.readout == "tokens" else theta.shape
        return polar(self.samples, self.groups, theta.reshape(shape), self.statement)

    def _scale(self, theta: Array, Y: Array, polar_max: float) -> float:
        """τ for θ = Θ/w with polars of at most ``polar_max``."""
        largest = self.statement.beta / polar_max if polar_max > 0 else np.inf
        squared = self.statement.loss == "squared"
        return best_squared_scale(theta, Y, self.w, largest) if squared else min(1.0, largest)


def _bias(weights: Weights, statement: Statement, outputs: int) -> Array:
    """The network's, (c,)."""
    if weights.bias is None:
        return np.zeros(outputs)
    bias = np.asarray(weights.bias, dtype=np.float64)
    if not statement.free_intercept:
        raise ValueError("bias: it goes with a free intercept; a penalised one is a weight of a column of ones.")
    if bias.shape != (outputs,) or not np.isfinite(bias).all():
        raise ValueError(f"bias: {outputs} finite numbers are needed, one an output, got shape {bias.shape}.")
    return bias
