"""How places are pooled where labels tell which of them tell classes apart: by Fisher's discriminant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_POWER = 0.25  # of C: by validation on TREC-6, which a half overfits; between 0.15 and 0.35 little changes
_FLOOR = 1e-3  # of the largest eigenvalue: places that hardly vary are not divided by next to nothing


def fisher_pool(X: Array, y: Array, cells: int) -> Array:
    """X (n, s, d), y (n,) → a pooling matrix (a, s), a ≤ ``cells``: the a leading rows of C^¼, in C's own directions.

    C (s, s) is the Gram matrix over places of Fisher's discriminant B_k = S⁻¹ M_k F^(−½): M_k (s, d) the mean of class
    k less that of all, S (s, s) the covariance of places within classes, and F the variances of features, on the mean
    over classes.  A readout V of the pooled places reads the places themselves by V C^¼, so that weight decay asks
    little of what tells classes apart and much of what does not.  Rows of C^¼ may be turned: the nuclear norm is the
    same, and leaving the last ones out is the best matrix of that rank.
    """
    classes, code = np.unique(y, return_inverse=True)
    n, s, d = X.shape
    size = float(np.abs(X).max(initial=0.0)) or 1.0  # of features of any unit
    mean, variance = np.zeros((len(classes), s, d)), np.zeros(d)
    for k, own in _by_class(X, code, size):
        mean[k] = own.mean(0)
        variance += np.square(own - mean[k]).sum((0, 1))
    alive = variance > np.finfo(float).eps * variance.max(initial=0.0)  # dead features do not count
    scale = np.where(alive, np.sqrt(n * s / np.where(alive, variance, 1.0)), 0.0)  # F^(−½)
    within = np.zeros((s, s))
    for k, own in _by_class(X, code, size):
        rest = ((own - mean[k]) * scale).transpose(1, 0, 2).reshape(s, -1)
        within += rest @ rest.T
    share = np.bincount(code) / n
    apart = np.sqrt(share)[:, None, None] * (mean - np.tensordot(share, mean, 1)) * scale
    values, turn = np.linalg.eigh(within / (n * max(d, 1)))
    floor = max(_FLOOR * values[-1], np.finfo(float).tiny)
    told = np.einsum("st,ktd->skd", (turn / np.maximum(values, floor)) @ turn.T, apart).reshape(s, -1)
    left, length, _ = np.linalg.svd(told, full_matrices=False)  # C = told toldᵀ
    kept = min(cells, int((length > np.finfo(float).eps * length[0]).sum()))
    if kept == 0:
        return np.full((1, s), 1 / s)  # no class differs from another: no place is told apart, and their mean is read
    return (left[:, :kept] * (length[:kept] / length[0]) ** (2 * _POWER)).T


def _by_class(X: Array, code: Array, size: float) -> Iterator[tuple[int, Array]]:
    """Every class and its samples, in float64: of no more than one class at a time."""
    for k in range(int(code.max()) + 1):
        yield k, X[code == k].astype(float) / size
