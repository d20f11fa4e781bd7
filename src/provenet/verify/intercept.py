"""A free intercept b (c,), the same for all rows, without penalty: the network's own, the best, and what it asks of Θ.

Whatever b is, ⟨Θ, 1bᵀ⟩ must be zero for Θ to bound every network: each column of Θ has to sum to zero, exactly.
Numbers of float64 are whole multiples of a power of two; cut to a common one, they are integers, and no sum rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from provenet.verify.losses import LOSSES

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
_HALVINGS = 2_000  # of a range, until its ends are neighbours among float64's numbers
_NEWTON = 100
_BITS = 62


def common(Y: Array, loss: str) -> Array:
    """What the targets (r, c) of a column share, (c,): one of them, if all are within a factor of two of it, so that no
    difference rounds; zero otherwise, and for labels, which have no place of their own."""
    middle = np.sort(Y, axis=0)[len(Y) // 2]
    close = (Y * np.sign(middle) >= np.abs(middle) / 2).all(axis=0) & (np.abs(Y) <= 2 * np.abs(middle)).all(axis=0)
    return np.where(close & (loss in ("squared", "huber")), middle, 0.0)


def best(prediction: Array, Y: Array, w: Array, loss: str, delta: float, own: Array) -> Array:
    """The b with Σ w∇ℓ(f + b) = 0, as well as it can be found; any other gives a bound, too, if a weaker one."""

    def slope(b: Array) -> Array:
        return np.asarray((w * LOSSES[loss](prediction + b, Y, delta)[1]).sum(axis=0))

    if loss == "softmax":
        return _newton(prediction, w, own, slope)
    distance = Y - prediction
    if loss == "logistic":
        if not ((Y == 0).any(axis=0) & (Y == 1).any(axis=0)).all():  # a column of one class has no best b
            return own
        far = np.abs(np.log(w.sum() / w[w > 0].min())) + 2
        low, high = -prediction.max(axis=0) - far, -prediction.min(axis=0) + far
    else:
        low, high = distance.min(axis=0), distance.max(axis=0)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        if ((middle <= low) | (middle >= high)).all():
            break
        rising = slope(middle) < 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(low)


def _newton(prediction: Array, w: Array, own: Array, slope: Callable[[Array], Array]) -> Array:
    """Of softmax, from the network's own b: as long as classes get closer to what they should have."""
    b, g = own, slope(own)
    for _ in range(_NEWTON):
        z = prediction + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        H = np.diag((w * p).sum(axis=0)) - (w * p).T @ p
        step = -np.linalg.lstsq(H, g, rcond=1e-13)[0]
        shorter = (b + step / 2**k for k in range(40))
        ahead = next((at for at in shorter if np.abs(slope(at)).sum() < np.abs(g).sum()), None)
        if ahead is None:
            break
        b, g = ahead, slope(ahead)
    return b


def balanced(theta: Array, Y: Array, w: Array, loss: str, delta: float) -> Array:
    """Θ = wθ (r, c) next to this one with columns that sum to zero exactly, in the domain of the conjugate."""
    if sums_to_zero(theta):
        return theta
    if loss == "softmax":
        return _labels(theta, Y) if np.isin(Y, (0, 1)).all() else _mixtures(theta, Y, w)
    if loss == "squared":
        theta = theta - w * (theta.sum(axis=0) / w.sum())
    elif loss == "huber":
        theta = np.clip(theta, -w * delta, w * delta)
    else:
        theta = np.where(Y == 1, np.minimum(theta, 0), np.maximum(theta, 0))
    plus, minus = np.maximum(theta, 0), np.maximum(-theta, 0)
    sums = plus.sum(axis=0), minus.sum(axis=0)
    least = np.minimum(*sums)
    plus = plus * np.divide(least, sums[0], out=np.zeros_like(least), where=sums[0] > 0)
    minus = minus * np.divide(least, sums[1], out=np.zeros_like(least), where=sums[1] > 0)
    (plus_w, minus_w), unit = _whole(plus, minus)
    for column in range(theta.shape[1]):
        more = int(plus_w[:, column].sum()) - int(minus_w[:, column].sum())
        _shorten((plus_w if more > 0 else minus_w)[:, column], abs(more))
    return np.asarray((plus_w - minus_w) * unit)


def sums_to_zero(theta: Array) -> bool:
    """Exactly; False where numbers of too different sizes are added for that to be seen."""
    (whole,), unit = _whole(theta)
    return bool((whole * unit == theta).all() and not whole.sum(axis=0).any())


def _whole(*parts: Array) -> tuple[list[Whole], float]:
    """Arrays as integers, cut towards zero, times a power of two; so small that sums over all entries fit."""
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    exponent = int(np.frexp(largest)[1])
    if not 0 < largest < np.inf or exponent < -900:
        return [np.zeros(part.shape, dtype=np.int64) for part in parts], 0.0
    bits = min(53, _BITS - int(parts[0].size).bit_length())
    cut = [np.trunc(np.ldexp(part, bits - exponent)).astype(np.int64) for part in parts]
    return cut, float(2.0 ** (exponent - bits))


def _shorten(entries: Whole, amount: int) -> None:
    """Take so much off integers that are not negative, in place, the largest first."""
    for i in np.argsort(-entries, kind="stable"):
        if amount == 0:
            break
        taken = min(amount, int(entries[i]))
        entries[i] -= taken
        amount -= taken


def _labels(theta: Array, Y: Array) -> Array:
    """Of labels: each row moves probability from its class to others, as flows from class to class; what one class
    sends beyond what it gets is taken back along a way to one that gets more than it sends."""
    others = np.where(Y == 1, 0, np.maximum(theta, 0))
    (moved, _), unit = _whole(others, others.sum(axis=1, keepdims=True))
    label, c = Y.argmax(axis=1), Y.shape[1]
    flow = [[int(amount) for amount in moved[label == a].sum(axis=0)] for a in range(c)]
    back = [[0] * c for _ in range(c)]
    excess = [sum(flow[a]) - sum(row[a] for row in flow) for a in range(c)]
    for _ in range(c * c + 2 * c):
        way = _way(flow, excess)
        steps = list(pairwise(way))
        amount = min(excess[way[0]], -excess[way[-1]], *(flow[a][b] for a, b in steps)) if steps else 0
        for a, b in steps:
            flow[a][b] -= amount
            back[a][b] += amount
        if steps:
            excess[way[0]] -= amount
            excess[way[-1]] += amount
    for a in range(c):
        rows = np.nonzero(label == a)[0]
        for b in range(c):
            part = moved[rows, b]
            _shorten(part, back[a][b])
            moved[rows, b] = part
    return np.asarray(np.where(Y == 1, -moved.sum(axis=1, keepdims=True), moved) * unit)


def _way(flow: list[list[int]], excess: list[int]) -> list[int]:
    """From a class that sends too much to one that gets too much, along flows above zero; none if all is even."""
    sources = [a for a, more in enumerate(excess) if more > 0]
    ways = [[a] for a in sources[:1]]
    reached = set(sources[:1])
    for way in ways:  # which grows on the way
        if excess[way[-1]] < 0:
            return way
        for there, amount in enumerate(flow[way[-1]]):
            if amount > 0 and there not in reached:
                reached.add(there)
                ways.append([*way, there])
    return []


def _mixtures(theta: Array, Y: Array, w: Array) -> Array:
    """Of targets on the simplex: a hair towards w(ȳ − y), which is inside the domain and sums to zero.  What is left
    goes to or from the commonest class, where there is most of what is taken.  Classes of which targets have nothing,
    or too little for that, must not be moved to."""
    mean = (w * Y).sum(axis=0) / w.sum()
    inner = (1 - 1e-11) * (theta - w * (theta.sum(axis=0) / w.sum())) + 1e-11 * w * (mean - Y)
    inner = np.maximum(inner, -w * Y)
    has = w * Y + inner
    (whole, _), unit = _whole(inner, np.abs(inner).sum(axis=1, keepdims=True))
    whole[:, (mean == 0) | (has.max(axis=0) <= 4 * Y.size * unit)] = 0
    whole[np.arange(len(Y)), has.argmax(axis=1)] -= whole.sum(axis=1)
    top = int(mean.argmax())
    for column, more in enumerate(whole.sum(axis=0)):
        if column != top:
            row = has[:, column if more > 0 else top].argmax()
            whole[row, column] -= more
            whole[row, top] += more
    return np.asarray(whole * unit)
