"""All arrangements 1{Φu ≥ 0}: the cells into which the hyperplanes Φ_r u = 0 cut space (BM §2, CP eq. 8).

Cells come by deletion and restriction: adding a hyperplane H cuts exactly the cells that the earlier hyperplanes
leave on H, one dimension lower.  So every cell is found next to the hyperplane that last cut it, and the work is in
proportion to their number.  In the plane the cells are the sectors between sorted angles.
"""

from __future__ import annotations

from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

_SAME = 1e-11  # hyperplanes of unit normals closer than this are one
_ON = 2e-14  # of its length: a point this close to a hyperplane is on it
_MOST = 2_000_000


def count_bound(rows: int, rank: int) -> int:
    """Cover (1965): N hyperplanes of rank r cut space into at most 2 Σ_{k<r} C(N − 1, k) cells; as many, if in general
    position."""
    return 2 * sum(comb(rows - 1, k) for k in range(rank)) if rows and rank else 1


def arrangements(rows: Tensor, most: int = _MOST) -> tuple[Tensor, Tensor]:
    """Every arrangement of Φ (N, p): a vector inside each cell (P, p) and its pattern (P, N) bool.

    Rows of zeros are open in every pattern.  Raises ValueError where there may be more than ``most``.
    """
    phi = rows.detach().to(torch.float64).numpy()
    norm = np.linalg.norm(phi, axis=1)
    alive = norm > 0
    unit = phi[alive] / norm[alive, None]
    planes = _distinct(unit)
    basis = _span(planes)  # (p, r)
    rank = basis.shape[1]
    bound = count_bound(len(planes), rank)
    if bound > most:
        raise ValueError(
            f"gates: 'all' would enumerate up to {bound:.3g} arrangements ({len(planes)} rows, rank {rank}), "
            f"more than {most:,}; sample some of them instead, e.g. gates=1000, or reduce the data's rank."
        )
    points = _cells(planes @ basis) @ basis.T
    pattern = np.ones((len(points), len(phi)), dtype=bool)
    side = points @ unit.T
    pattern[:, alive] = side > 0
    keep = _first_of_each(pattern)
    return torch.from_numpy(points[keep]), torch.from_numpy(pattern[keep])


def _cells(planes: Array) -> Array:
    """A point inside every cell of central hyperplanes with unit normals (m, r), distinct and of rank r."""
    m, r = planes.shape
    if r == 0:
        return np.zeros((1, 0))
    if r == 1:
        return np.array([[1.0], [-1.0]])
    if r == 2:
        return _sectors(planes)
    found = [np.zeros((0, r))]
    for i in range(m):
        on = _complement(planes[i])  # (r, r − 1)
        others = planes[:i] @ on
        size = np.linalg.norm(others, axis=1)
        lines = _distinct(others / size[:, None]) if i else others
        basis = _span(lines)
        inside = _cells(lines @ basis) @ basis.T @ on.T if i else np.zeros((1, r))
        # a step off H_i that crosses none of the earlier hyperplanes
        room = np.abs(inside @ planes[:i].T) / np.maximum(np.abs(planes[:i] @ planes[i]), 1e-300)
        step = 0.5 * np.minimum(room.min(axis=1, initial=1.0), 1.0)[:, None] * planes[i]
        found += [inside + step, inside - step]
    return _innermost(np.concatenate(found), planes)


def _innermost(points: Array, planes: Array) -> Array:
    """One point a cell, the farthest from all hyperplanes; points on a hyperplane are in no cell."""
    side = points @ planes.T
    margin = np.abs(side).min(axis=1) / np.linalg.norm(points, axis=1)
    order = np.argsort(-margin, kind="stable")
    order = order[margin[order] > _ON]
    return points[order[_first_of_each(side[order] > 0)]]


def _sectors(lines: Array) -> Array:
    """A point inside every sector of the plane, for lines with unit normals (m, 2)."""
    angle = np.sort(np.mod(np.arctan2(lines[:, 1], lines[:, 0]) + np.pi / 2, np.pi))
    around = np.concatenate([angle, angle + np.pi, [angle[0] + 2 * np.pi]])
    middle = (around[1:] + around[:-1]) / 2
    return np.stack([np.cos(middle), np.sin(middle)], axis=1)


def _distinct(unit: Array) -> Array:
    """One normal for each hyperplane: parallel and opposite ones are the same."""
    if len(unit) == 0:
        return unit
    lead = np.argmax(np.abs(unit) > 0.5 / unit.shape[1] ** 0.5, axis=1)  # the first entry that is clearly not zero
    signed = unit * np.sign(unit[np.arange(len(unit)), lead])[:, None]
    order = np.lexsort(np.round(signed, 9).T)
    kept: list[int] = []
    for k in order:
        near = [j for j in kept[-8:] if np.abs(signed[j] - signed[k]).max() <= _SAME]
        if not near:
            kept.append(int(k))
    # neighbours in one order may hide pairs that rounding sorted apart: look at all of them where they are few
    chosen = signed[kept]
    if 1 < len(chosen) <= 4000:
        gram = np.abs(chosen @ chosen.T)
        np.fill_diagonal(gram, 0)
        for a, b in np.argwhere(np.triu(gram > 1 - 1e-9)):
            difference = min(np.abs(chosen[a] - chosen[b]).max(), np.abs(chosen[a] + chosen[b]).max())
            if difference <= _SAME:
                kept[b] = kept[a]
    return unit[sorted(set(kept))]


def _span(rows: Array) -> Array:
    """An orthonormal basis (p, r) of what the rows span."""
    if len(rows) == 0:
        return np.zeros((rows.shape[1], 0))
    _, sigma, Vh = np.linalg.svd(rows, full_matrices=False)
    rank = int((sigma > sigma[0] * max(rows.shape) * np.finfo(np.float64).eps * 8).sum())
    return Vh[:rank].T


def _complement(normal: Array) -> Array:
    """An orthonormal basis (r, r − 1) of the hyperplane: the rest of a Householder reflection."""
    v = normal.copy()
    v[0] += np.copysign(1.0, v[0])
    reflection = np.eye(len(v)) - 2 * np.outer(v, v) / (v @ v)
    return reflection[:, 1:]


def _first_of_each(pattern: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The first row of each distinct pattern, in order."""
    packed = np.ascontiguousarray(np.packbits(pattern, axis=1))
    key = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    return np.sort(np.unique(key, return_index=True)[1])
