"""An independent checker of certificates: numpy, plain formulas, nothing else of the package.

For a two-layer network  f(x) = Σ_j 1{g_jᵀx ≥ 0} (u_jᵀx) v_j  (without gates: Σ_j (u_jᵀx) v_j)  it computes

    primal = Σ_i w_i ℓ(f(x_i), y_i) + β/2 Σ_j (‖u_j‖² + ‖v_j‖²)
    Θ      = the gradient of the loss at the network's outputs
    polar  = max_k σ_max(XᵀD_kΘ)  over every gate k of the problem
    dual   = −L*(τΘ)  for a τ with τ·polar ≤ β

By weak duality no network with these gates has an objective below ``dual``, whatever Θ is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Verdict:
    """The network's objective, a lower bound of every such network's, and the largest σ_max(XᵀD_kΘ)."""

    primal: float
    dual: float
    polar_max: float

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), float(np.finfo(np.float64).tiny))


def verify(
    X: Any,
    Y: Any,
    first: Any,
    second: Any,
    gates: Any = None,
    *,
    loss: str,
    beta: float,
    sample_weight: Any = None,
    fit_intercept: bool = False,
    gate_vectors: Any = None,
    delta: float = 1.0,
) -> Verdict:
    """The verdict on a network's weights and its data, in the user's own units.

    X (n, d).  Y (n, c) or (n,), class indices (n,) for softmax.  first (N, p), second (N, c), gates (N, p) or None
    for the linear network.  gate_vectors (P, p): all gates of the problem; by default the network's own.
    loss: "squared", "softmax", "logistic" or "huber" (with its ``delta``).
    """
    if loss not in _LOSSES:
        raise ValueError(f"loss: {loss!r} is unknown; choose one of {', '.join(map(repr, _LOSSES))}.")
    if not (0 < beta < np.inf and 0 < delta < np.inf):
        raise ValueError(f"beta, delta: they must be positive, finite numbers, got {beta!r} and {delta!r}.")
    X, first, second = (np.asarray(a, dtype=np.float64) for a in (X, first, second))
    w = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if not ((w >= 0) & (w < np.inf)).all():
        raise ValueError("sample_weight: weights must be finite and not negative.")
    Y = _targets(Y, loss, second.shape[1])
    X, Y, w = X[w > 0], Y[w > 0], w[w > 0, None]
    if fit_intercept:
        X = np.hstack([X, np.ones((len(X), 1))])

    hidden = X @ first.T
    if gates is not None:
        hidden = hidden * (X @ np.asarray(gates, dtype=np.float64).T >= 0)
    prediction = hidden @ second
    if Y.shape != prediction.shape:
        raise ValueError(f"Y: it has shape {Y.shape}, the network's outputs {prediction.shape}.")
    if not np.isfinite(prediction).all():
        raise ValueError("first, second: the network's outputs on X are not finite; there is nothing to verify.")
    value, theta, conjugate = _LOSSES[loss](prediction, Y, delta)
    primal = float((w * value).sum()) + beta / 2 * float((first**2).sum() + (second**2).sum())

    theta_w = w * theta  # the gradient of the weighted loss
    sizes = np.abs(X).T @ np.abs(theta_w)  # each entry of XᵀD_kΘ rounds by at most n·eps of its own
    hidden_by_rounding = (len(X) + 2) * _EPS * float(sizes.max()) * sizes.size**0.5
    polar_max = hidden_by_rounding + max(
        _spectral_norm_upper((X * open_[:, None]).T @ theta_w) for open_ in _patterns(X, gates, gate_vectors)
    )
    largest = beta / polar_max if polar_max > 0 else np.inf
    tau = _best_squared_scale(theta, Y, w, largest) if loss == "squared" else min(1.0, largest)
    dual = -float((w * conjugate(tau)).sum())
    return Verdict(primal, dual, polar_max)


def _targets(Y: Any, loss: str, outputs: int) -> Array:
    Y = np.asarray(Y)
    if Y.ndim == 1 and loss == "softmax":
        if not np.isin(Y, np.arange(outputs)).all():
            raise ValueError(f"Y: with {outputs} outputs softmax labels are the whole numbers from 0 to {outputs - 1}.")
        Y = np.eye(outputs)[Y.astype(int)]
    Y = (Y[:, None] if Y.ndim == 1 else Y).astype(np.float64)
    if not np.isfinite(Y).all():
        raise ValueError("Y: it has entries that are not finite.")
    if loss == "softmax" and not ((Y >= 0).all() and np.allclose(Y.sum(axis=1), 1, rtol=0, atol=64 * _EPS)):
        raise ValueError("Y: softmax targets are labels (n,) or rows on the simplex (n, c).")
    if loss == "logistic" and not np.isin(Y, (0, 1)).all():
        raise ValueError("Y: logistic targets are zeros and ones.")
    return Y


def _patterns(X: Array, gates: Any, gate_vectors: Any) -> NDArray[np.bool_]:
    """Which rows each gate opens, (P, n): the problem's gates and the network's own, each pattern once."""
    if gates is None and gate_vectors is None:
        return np.ones((1, len(X)), dtype=bool)
    given = [np.asarray(g, dtype=np.float64) for g in (gate_vectors, gates) if g is not None]
    vectors = np.vstack([g for g in given if len(g)] or [np.zeros((1, X.shape[1]))])
    return np.unique(X @ vectors.T >= 0, axis=1).T


def _spectral_norm_upper(G: Array) -> float:
    return float(np.linalg.svd(G, compute_uv=False)[0]) * (1 + 8 * sum(G.shape) * _EPS)


def _best_squared_scale(theta: Array, Y: Array, w: Array, largest: float) -> float:
    """The best τ in [0, largest]: −L*(τΘ) = −τ⟨Θ, Y⟩ − τ²/2 ‖Θ‖² is a parabola."""
    curvature = float((w * theta**2).sum())
    return min(max(-float((w * theta * Y).sum()) / curvature, 0.0), largest) if curvature > 0 else 0.0


Conjugate = Callable[[float], Array]  # τ ↦ ℓ*(τθ), summed over the outputs, or entry by entry


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
    sure = y == 1  # there from 1 − p, summed over the others: a good fit keeps its digits
    rest = np.where(sure, 0, p).sum(axis=1, keepdims=True)
    log_p = np.where(sure & (rest < 0.5), np.log1p(-np.minimum(rest, 0.5)), log_p)
    theta = np.where(sure, -rest, p - y)

    def conjugate(t: float) -> Array:
        return np.where(sure, _rest_log_rest(t * rest), _xlogx((1 - t) * y + t * p)).sum(axis=1, keepdims=True)

    return -(y * log_p).sum(axis=1, keepdims=True), theta, conjugate


def _xlogx(p: Array) -> Array:
    return p * np.log(np.where(p > 0, p, 1.0))


def _rest_log_rest(p: Array) -> Array:
    """(1 − p) log(1 − p), zero at p = 1."""
    return (1 - p) * np.log1p(-np.minimum(p, 1 - _EPS))


_LOSSES = {"squared": _squared, "softmax": _softmax, "logistic": _logistic, "huber": _huber}
