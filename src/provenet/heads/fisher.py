"""How places are pooled where labels tell which of them tell classes apart: by Fisher's discriminant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_POWER = 0.25  # of C: by validation on TREC-6, which a half overfits; between 0.15 and 0.35 little changes
_FLOOR = 1e-3  # of the largest eigenvalue: places that hardly vary are not divided by next to nothing
_AT_ONCE = 2**23  # numbers of X that are looked at together
_COLUMNS = 8  # times the places: of what is factorised at once


def fisher_pool(X: Array, y: Array, cells: int) -> Array:
    """X (n, s, d), y (n,) → a pooling matrix (a, s), a ≤ ``cells``: the a leading rows of C^¼, in C's own directions.

    C (s, s) is the Gram matrix over places of Fisher's discriminant B_k = S⁻¹ M_k F^(−½): M_k (s, d) the mean of class
    k less that of all, S (s, s) the covariance of places within classes, and F the variances of features, on the mean
    over classes.  A readout V of the pooled places reads the places themselves by V C^¼, so that weight decay asks
    little of what tells classes apart and much of what does not.  Rows of C^¼ may be turned: the nuclear norm is the
    same, and leaving the last ones out is the best matrix of that rank.
    """
    _, code = np.unique(y, return_inverse=True)
    n, s, d = X.shape
    size = float(max(X.max(initial=0.0), -X.min(initial=0.0))) or 1.0  # of features of any unit
    mean, variance = np.zeros((s, d)), np.zeros(d)
    for own in _classes(X, code, size):
        mean += own.share * own.mean
        variance += sum(np.square(some - own.mean).sum((0, 1)) for some in own.pieces())
    alive = variance > np.finfo(float).eps * variance.max(initial=0.0)  # dead features do not count
    scale = np.where(alive, np.sqrt(n * s / np.where(alive, variance, 1.0)), 0.0)  # F^(−½)
    within, apart = np.zeros((s, s)), _Triangle(s)
    for own in _classes(X, code, size):
        for some in own.pieces():
            rest = ((some - own.mean) * scale).transpose(1, 0, 2).reshape(s, -1)
            within += rest @ rest.T
        apart.add(own.share**0.5 * (own.mean - mean) * scale)
    values, turn = np.linalg.eigh(within / (n * max(d, 1)))
    floor = max(_FLOOR * values[-1], np.finfo(float).tiny)
    told = (turn / np.maximum(values, floor)) @ turn.T @ apart.factor
    left, length, _ = np.linalg.svd(told, full_matrices=False)  # C = told toldᵀ
    kept = min(cells, int((length > np.finfo(float).eps * length[0]).sum()))
    if kept == 0:
        return np.full((1, s), 1 / s)  # no class differs from another: no place is told apart, and their mean is read
    return (left[:, :kept] * (length[:kept] / length[0]) ** (2 * _POWER)).T


@dataclass(frozen=True)
class _Class:
    """Its rows of X, which are gone over in float64 some at a time."""

    X: Array
    rows: Array
    size: float

    @property
    def share(self) -> float:
        return len(self.rows) / len(self.X)

    @cached_property
    def mean(self) -> Array:
        return np.asarray(sum(some.sum(0) for some in self.pieces()) / len(self.rows))

    def pieces(self) -> Iterator[Array]:
        step = max(1, _AT_ONCE // self.X[0].size)
        for i in range(0, len(self.rows), step):
            yield self.X[self.rows[i : i + step]].astype(float) / self.size


def _classes(X: Array, code: Array, size: float) -> Iterator[_Class]:
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(code))[:-1]):
        yield _Class(X, rows, size)


class _Triangle:
    """L (s, ≤ s) with LLᵀ = Σ MMᵀ over matrices M (s, d) that come one after the other: no more than some are kept."""

    def __init__(self, s: int):
        self._parts, self._most = [np.zeros((s, 0))], _COLUMNS * s

    def add(self, part: Array) -> None:
        self._parts.append(part)
        if sum(part.shape[1] for part in self._parts) > self._most:
            self._parts = [self.factor]

    @property
    def factor(self) -> Array:
        triangle: Array = np.asarray(np.linalg.qr(np.concatenate(self._parts, axis=1).T, mode="r"))
        return triangle.T
