"""Losses, their gradients and conjugates, on rows (r, c) of outputs and targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Conjugate = Callable[[float], Array]  # τ ↦ ℓ*(τθ), summed over the outputs, or entry by entry
EPS = float(np.finfo(np.float64).eps)
_EDGE = 64 * EPS


def targets(Y: Any, loss: str, outputs: int, tokens: bool) -> Array:
    """(n, c), or (n, s, c) with one a token; labels become one-hot for softmax."""
    Y = np.asarray(Y)
    if Y.ndim == 1 + tokens:
        if loss == "softmax":
            if not np.isin(Y, np.arange(outputs)).all():
                raise ValueError(
                    f"Y: with {outputs} outputs softmax labels are the whole numbers from 0 to {outputs - 1}."
                )
            Y = np.eye(outputs)[Y.astype(int)]
        else:
            Y = Y[..., None]
    Y = Y.astype(np.float64)
    if not np.isfinite(Y).all():
        raise ValueError("Y: it has entries that are not finite.")
    if loss == "softmax" and not ((Y >= 0).all() and np.allclose(Y.sum(axis=-1), 1, rtol=0, atol=64 * EPS)):
        raise ValueError("Y: softmax targets are labels (n,) or rows on the simplex (n, c).")
    if loss == "logistic" and not np.isin(Y, (0, 1)).all():
        raise ValueError("Y: logistic targets are zeros and ones.")
    return Y


def best_squared_scale(theta: Array, Y: Array, w: Array, largest: float) -> float:
    """The best τ in [0, largest]: −L*(τΘ) = −τ⟨Θ, Y⟩ − τ²/2 ‖Θ‖² is a parabola."""
    curvature = float((w * theta**2).sum())
    return min(max(-float((w * theta * Y).sum()) / curvature, 0.0), largest) if curvature > 0 else 0.0


def _squared(f: Array, y: Array, _: float) -> tuple[Array, Array, Conjugate]:
    theta = f - y
    return theta**2 / 2, theta, lambda t: (t * theta) ** 2 / 2 + t * theta * y


def _huber(f: Array, y: Array, delta: float) -> tuple[Array, Array, Conjugate]:
    r = f - y
    theta = np.clip(r, -delta, delta)
    value = np.where(np.abs(r) <= delta, r**2 / 2, delta * (np.abs(r) - delta / 2))
    return value, theta, lambda t: (t * theta) ** 2 / 2 + t * theta * y


def _logistic(f: Array, y: Array, _: float) -> tuple[Array, Array, Conjugate]:
    """ℓ = log(1 + e^f) − yf; ℓ*(θ) = p log p + (1 − p) log(1 − p) with p = y + θ."""
    wrong = np.where(y == 1, -f, f)  # ℓ = log(1 + e^wrong), slope e^wrong / (1 + e^wrong)
    slope = np.exp(-np.logaddexp(0, -wrong))
    theta = np.where(y == 1, -slope, slope)
    return np.logaddexp(0, wrong), theta, lambda t: _xlogx(t * slope) + _rest_log_rest(t * slope)


def _softmax(f: Array, y: Array, _: float) -> tuple[Array, Array, Conjugate]:
    """ℓ = log Σ e^f − ⟨y, f⟩; ℓ*(θ) = Σ p log p with p = y + θ on the simplex."""
    f = f - f.max(axis=1, keepdims=True)
    log_p = f - np.log(np.exp(f).sum(axis=1, keepdims=True))
    p = np.exp(log_p)
    sure = _label(y)  # there from 1 − p, summed over the others: a good fit keeps its digits
    rest = np.where(sure, 0, p).sum(axis=1, keepdims=True)
    log_p = np.where(sure & (rest < 0.5), np.log1p(-np.minimum(rest, 0.5)), log_p)
    theta = _closed(p - y, sure)

    def conjugate(t: float) -> Array:
        mixed = np.where(sure, 0, (1 - t) * y + t * p)
        left = mixed.sum(axis=1, keepdims=True)
        return np.where(sure, _rest_log_rest(left), _xlogx(mixed)).sum(axis=1, keepdims=True)

    return -(y * log_p).sum(axis=1, keepdims=True), theta, conjugate


def _label(y: Array) -> NDArray[np.bool_]:
    """Where rows (r, c) have their largest entry, the first of equals."""
    return np.asarray(np.arange(y.shape[1]) == y.argmax(axis=1)[:, None])


def _closed(theta: Array, label: NDArray[np.bool_]) -> Array:
    """Rows that sum to zero: the label's entry from the others."""
    others = np.where(label, 0, theta)
    return np.where(label, -others.sum(axis=1, keepdims=True), others)


def _xlogx(p: Array) -> Array:
    return p * np.log(np.where(p > 0, p, 1.0))


def _rest_log_rest(p: Array) -> Array:
    """(1 − p) log(1 − p), zero at p = 1."""
    return (1 - p) * np.log1p(-np.minimum(p, 1 - EPS))


LOSSES = {"squared": _squared, "softmax": _softmax, "logistic": _logistic, "huber": _huber}


def admissible(loss: str, theta: Array, y: Array, w: Array) -> Array:
    """Θ = wθ (r, c), w (r, 1), with the signs and sums that the conjugate asks for, exactly: its edges are wider than
    tiny θ are."""
    if loss == "logistic":
        return np.where(y == 1, np.minimum(theta, 0), np.maximum(theta, 0))
    if loss != "softmax":
        return theta
    return _closed(np.maximum(theta, -w * y), _label(y))


def conjugate(loss: str, theta: Array, y: Array, delta: float) -> Array:
    """ℓ*(θ) of any θ (r, c), entry by entry; infinite outside its domain, but for the rounding of its edges."""
    if loss == "squared":
        return theta**2 / 2 + theta * y
    if loss == "huber":
        return np.where(np.abs(theta) <= delta * (1 + _EDGE), theta**2 / 2 + theta * y, np.inf)
    if loss == "logistic":
        p = np.where(y == 1, -theta, y + theta)  # where the label is one, 1 − p: a tiny θ keeps its digits
        inside = (p >= 0) & (p <= 1 + _EDGE)
        return np.where(inside, _xlogx(np.clip(p, 0, 1)) + _rest_log_rest(np.clip(p, 0, 1)), np.inf)
    sure, p = _label(y), y + theta
    left = np.where(sure, 0, y).sum(axis=1, keepdims=True) - theta  # there 1 − p
    inside = (p >= -_EDGE * y) & (np.abs(p.sum(axis=1, keepdims=True) - 1) <= _EDGE * p.shape[1])
    return np.where(inside, np.where(sure, _rest_log_rest(np.clip(left, 0, 1)), _xlogx(np.clip(p, 0, 1))), np.inf)
