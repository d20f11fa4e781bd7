"""Norms 1, 2 and ∞ of neurons, and the pull max{uᵀGv : ‖u‖_C ≤ 1, ‖v‖_R ≤ 1} that they leave a gate."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.verify.losses import EPS

Array = NDArray[np.float64]
_DUAL = {1.0: np.inf, 2.0: 2.0, np.inf: 1.0}
_MOST_SIGNS = 16


def checked(penalty: Any) -> tuple[float, float]:
    """(C, R), each 1, 2 or inf."""
    norms = tuple(float(norm) for norm in penalty)
    if len(norms) != 2 or not all(norm in _DUAL for norm in norms):
        raise ValueError(f"penalty: two norms, each 1, 2 or inf, are needed, got {penalty!r}.")
    return norms[0], norms[1]


def squared_lengths(weights: Array, norm: float) -> float:
    """Σ_j ‖w_j‖² over the rows (N, size)."""
    return float((np.linalg.norm(weights, norm, axis=1) ** 2).sum())


def strongest(G: Array, penalty: tuple[float, float]) -> float:
    """No less than the pull of G (p, q).

    The 1-norm's ball has unit vectors for corners, so that one line of G is pulled at; the ∞-norm's has signs.
    """
    (p, q), (first, second) = G.shape, penalty
    first, second = (1.0 if p == 1 else first), (1.0 if q == 1 else second)  # a number has one norm
    slack = 1 + 8 * (p + q) ** 2 * EPS
    if first == 1:
        return float(np.linalg.norm(G, _DUAL[second], axis=1).max()) * slack
    if second == 1:
        return float(np.linalg.norm(G, _DUAL[first], axis=0).max()) * slack
    if first == second == 2:
        return float(np.linalg.svd(G, compute_uv=False)[0]) * (1 + 8 * (p + q) * EPS)
    by_rows = second != np.inf or (first == np.inf and p <= q)
    lines, inner = (G, second) if by_rows else (G.T, first)
    if len(lines) > _MOST_SIGNS:
        raise ValueError(f"penalty: {len(lines)} weights have too many signs to go over; {_MOST_SIGNS} are the most.")
    corners = np.array([(1.0, *rest) for rest in product((1.0, -1.0), repeat=len(lines) - 1)])
    return float(np.linalg.norm(corners @ lines, _DUAL[inner], axis=1).max()) * slack


def pull_of_one(penalty: tuple[float, float], p: int, q: int) -> float:
    """The most that a G (p, q) of Frobenius norm one can pull: ‖u‖₂ ≤ √p‖u‖_∞, other norms are no smaller."""
    first, second = penalty
    return float(np.sqrt((p if first == np.inf else 1) * (q if second == np.inf else 1)))
