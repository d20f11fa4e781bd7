"""Cone-constrained PCA for ReLU: upper bounds of max ‖Gᵀu‖ over ‖u‖ ≤ 1 with u on the right side of every row.

For one output any multipliers λ ≥ 0 give the bound ‖g + Kᵀλ‖; in the plane the cone is a range of angles, and in space
its facets are such planes; elsewhere the spectral norm has to do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_WIDER = 1e-11  # radians added to either end of a range of angles
_VIOLATED = 1e-12
_FACET = 1e-9  # of a unit vector's side: no farther from a plane than rounding may have put it
_MOST_ROWS = 2_000  # of a cone in space: every row may be a facet


def cone_bound(G: Array, K: Array) -> float:
    """For G (p, q) and unit rows K (N, p), rows of zeros left out."""
    spectral = float(np.linalg.svd(G, compute_uv=False)[0]) * (1 + 1e-13 * sum(G.shape))
    if len(K) == 0:
        return spectral
    if G.shape[1] == 1:
        return min(spectral, max(projected_length(G[:, 0], K), projected_length(-G[:, 0], K)))
    G, K, lost = _reduced(G, K)
    if G.shape[0] == 2:
        return min(spectral, _plane(G, K) + lost)
    return min(spectral, _space(G, K) + lost) if G.shape[0] == 3 and len(K) <= _MOST_ROWS else spectral


def is_reached(G: Array, K: Array, bound: float) -> bool:
    """Whether ``bound``, that of `cone_bound`, is the number itself: below the spectral norm, or that of a u inside."""
    U, sigma, _ = np.linalg.svd(G)
    side = K @ U[:, 0]
    inside = len(K) == 0 or side.min() >= -_FACET or side.max() <= _FACET
    return bool(inside or bound < sigma[0] * (1 - 1e-9))


def _reduced(G: Array, K: Array) -> tuple[Array, Array, float]:
    """Both in the coordinates of the space that the rows span, if that has three dimensions or less, and what of G lies
    outside of it: nothing but rounding, as slopes are sums of rows."""
    if G.shape[0] <= 3:
        return G, K, 0.0
    _, sigma, Vh = np.linalg.svd(K, full_matrices=False)
    rank = int((sigma > 1e-10 * sigma[0]).sum())
    if rank > 3:
        return G, K, 0.0
    V = Vh[: max(rank, 2)].T
    flat = K @ V
    return V.T @ G, flat / np.linalg.norm(flat, axis=1, keepdims=True), float(np.linalg.norm(G - V @ (V.T @ G)))


def projected_length(g: Array, K: Array) -> float:
    """‖g + Kᵀλ‖ for multipliers λ ≥ 0 of few rows, found by adding the row that is violated most: at least the length
    of the projection of g onto Ku ≥ 0, whatever their accuracy."""
    size = float(np.linalg.norm(g))
    return min(float(np.linalg.norm(u)) + 1e-14 * (size + lam.sum()) for u, _, lam in _approaching(g, K))


def projected(g: Array, K: Array) -> tuple[Array, list[int], Array]:
    """g + Kᵀλ, about the projection of g onto Ku ≥ 0, the rows with λ > 0, and λ ≥ 0."""
    *_, last = _approaching(g, K)
    return last


def _approaching(g: Array, K: Array) -> Iterator[tuple[Array, list[int], Array]]:
    """(g + Kᵀλ, rows, λ), from λ = 0 on (Lawson and Hanson 1974)."""
    size = float(np.linalg.norm(g))
    rows: list[int] = []
    lam = np.zeros(0)
    for _ in range(6 * len(g) + 20):
        u = g + lam @ K[rows]
        yield u, rows, lam
        side = K @ u
        worst = int(side.argmin())
        if side[worst] >= -_VIOLATED * size or worst in rows:
            break
        rows = [*rows, worst]
        lam = np.append(lam, 0.0)
        for _ in range(len(rows)):  # each leaves one out at least
            wanted = np.linalg.lstsq(K[rows].T, -g, rcond=None)[0]
            if (wanted > 0).all():
                lam = wanted
                break
            falling = wanted <= 0
            step = (lam[falling] / np.maximum(lam[falling] - wanted[falling], 1e-300)).min()
            lam = np.maximum(lam + step * (wanted - lam), 0)
            keep = ~(falling & (lam <= 1e-14 * max(lam.max(initial=0.0), 1e-300)))
            rows, lam = [r for r, kept in zip(rows, keep, strict=True) if kept], lam[keep]


def _plane(G: Array, K: Array) -> float:
    """‖Gᵀu‖² = m + r·cos(2φ − ψ) is largest at ψ/2, or at an end of the range of φ."""
    normal = np.arctan2(K[:, 1], K[:, 0])
    middle = _inside(normal)
    if middle is None:  # no u but zero, or a cone too thin to tell: the spectral norm has to do
        return np.inf
    away = np.mod(normal - middle + np.pi, 2 * np.pi) - np.pi
    low, high = away.max() - np.pi / 2 - _WIDER, away.min() + np.pi / 2 + _WIDER
    A = G @ G.T
    mean, radius = (A[0, 0] + A[1, 1]) / 2, float(np.hypot((A[0, 0] - A[1, 1]) / 2, A[0, 1]))
    top = np.mod(np.arctan2(2 * A[0, 1], A[0, 0] - A[1, 1]) / 2 - middle - low, np.pi) + low
    angles = np.array([low, high]) + middle
    square = mean + radius * np.cos(2 * angles - np.arctan2(2 * A[0, 1], A[0, 0] - A[1, 1])).max()
    if top <= high:
        square = mean + radius
    return float(np.sqrt(max(square, 0.0))) * (1 + 1e-12) + 1e-13 * float(np.sqrt(mean + radius))


def _space(G: Array, K: Array) -> float:
    """In space ‖Gᵀu‖ is largest at the top singular vector, if the cone holds it, else on a facet: a plane."""
    values, vectors = np.linalg.eigh(G @ G.T)
    side = K @ vectors[:, 2]
    twin = values[2] - values[1] <= 1e-6 * values[2]  # then some other vector may be as good
    if twin or side.min() >= -_FACET or side.max() <= _FACET:
        return np.inf
    found = 0.0
    for row in np.unique(K, axis=0):
        basis = np.linalg.svd(row[None])[2][1:].T  # (3, 2): the plane row·u = 0
        lines = K @ basis
        size = np.linalg.norm(lines, axis=1)
        flat = lines[size > _FACET] / size[size > _FACET, None]
        bound = _plane(basis.T @ G, flat) if len(flat) else np.inf
        if np.isfinite(bound):  # else the plane meets the cone in a ray or less, which other facets have
            found = max(found, bound)
        elif len(flat) == 0:
            return np.inf
    return found * (1 + 1e-9)


def _inside(normal: Array) -> float | None:
    """An angle within a right angle of all normals: the middle of the arc that holds them all."""
    order = np.sort(np.mod(normal, 2 * np.pi))
    gaps = np.diff(np.append(order, order[0] + 2 * np.pi))
    widest = int(gaps.argmax())
    if gaps[widest] <= np.pi + 1e-12:
        return None
    start, end = order[(widest + 1) % len(order)], order[widest]
    return float(start + np.mod(end - start, 2 * np.pi) / 2)


def sectors(rows: Array) -> Array:
    """A unit vector in every sector that lines through the origin, normal to rows (N, 2), cut the plane into."""
    alive = rows[np.abs(rows).max(axis=1) > 0]
    if len(alive) == 0:
        return np.array([[1.0, 0.0]])
    angle = np.unique(np.mod(np.arctan2(alive[:, 1], alive[:, 0]) + np.pi / 2, np.pi))
    around = np.concatenate([angle, angle + np.pi, [angle[0] + 2 * np.pi]])
    middle = (around[1:] + around[:-1]) / 2
    return np.stack([np.cos(middle), np.sin(middle)], axis=1)
