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

_EPS = float(np.finfo(np.float64).eps)
_SAME = 8.0  # times what rounding may have done to unit normals: closer than this they are one
_APART = 1e-11  # closer than this, but not the same, no cell between them can be told from rounding
_ON = 2e-14  # of its length: a point this close to a hyperplane is on it
_MOST = 200_000


class NotEnumerable(ValueError):
    """There are too many arrangements, or some are too thin to be told from rounding."""


def count_bound(rows: int, rank: int) -> int:
    """Cover (1965): N hyperplanes of rank r cut space into at most 2 Σ_{k<r} C(N − 1, k) cells; as many, if in general
    position."""
    return 2 * sum(comb(rows - 1, k) for k in range(rank)) if rows and rank else 1


def arrangements(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Every arrangement of Φ (N, p): a vector inside each cell (P, p) and its pattern (P, N) bool.

    Rows of zeros are open in every pattern.  Raises NotEnumerable where there may be too many, and where
    rows are so nearly parallel, or meet so nearly in one place, that cells between them may be missed.
    """
    phi = rows.detach().to(torch.float64).numpy()
    norm = np.linalg.norm(phi, axis=1)
    alive = norm > 0
    unit = phi[alive] / norm[alive, None]
    planes, error = _distinct(unit, np.full(len(unit), _EPS))
    basis = _span(planes)  # (p, r)
    rank = basis.shape[1]
    outside = np.linalg.norm(planes - planes @ basis @ basis.T, axis=1).max(initial=0.0)
    if outside > 8 * (rank + 4) * _EPS:
        _refuse("its rows leave a space of lower dimension", outside)
    bound = count_bound(len(planes), rank)
    if bound > _MOST:
        raise NotEnumerable(
            f"gates: 'all' would enumerate up to {bound:.3g} arrangements ({len(planes)} rows, rank {rank}), "
            f"more than {_MOST:,}; sample some of them instead, e.g. gates=1000, or reduce the data's rank."
        )
    points = _cells(planes @ basis, error) @ basis.T
    pattern = np.ones((len(points), len(phi)), dtype=bool)
    side = points @ unit.T
    pattern[:, alive] = side > 0
    keep = _first_of_each(pattern)
    return torch.from_numpy(points[keep]), torch.from_numpy(pattern[keep])


def doubt(rows: Tensor) -> float:
    """How many times the rounding of rows (N, p) the pull of a neuron may change where rows that are parallel up to
    rounding count as one: 2J√p times, for J of them.

    A pull Σ θ_r(x_r·u)₊ changes by no more than its rounding bound, over eps, times the length of a move of u.  And
    within 2J√p·δ of any u there is one farther than δ from J hyperplanes, on the same side of all that are within δ of
    them: slabs of such width do not fill a ball of that size.
    """
    phi = rows.detach().to(torch.float64).numpy()
    norm = np.linalg.norm(phi, axis=1)
    unit = phi[norm > 0] / norm[norm > 0, None]
    lead = np.argmax(unit != 0, axis=1)
    exact = len(np.unique(unit * np.sign(unit[np.arange(len(unit)), lead])[:, None], axis=0))
    near = exact - len(_distinct(unit, np.full(len(unit), _EPS))[0])
    return 4 * _SAME * near * phi.shape[1] ** 0.5


def _cells(planes: Array, error: Array) -> Array:
    """A point inside every cell of central hyperplanes with unit normals (m, r), distinct and of rank r.

    error (m,): what rounding may have done to the normals."""
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
        # where hyperplanes meet at a small angle, rounding turns their line by so much more
        lines, turned = _distinct(others / size[:, None], (error[:i] + error[i]) / size) if i else (others, error[:0])
        basis = _span(lines)
        inside = _cells(lines @ basis, turned) @ basis.T @ on.T if i else np.zeros((1, r))
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


def _distinct(unit: Array, error: Array) -> tuple[Array, Array]:
    """One normal for each hyperplane, parallel and opposite ones being the same, and what rounding may have done to it.

    Raises NotEnumerable where two are neither the same up to rounding nor clearly apart."""
    if len(unit) < 2:
        return unit, error
    # measured along any direction, normals that are close are neighbours
    along = np.abs(unit @ np.sqrt(np.arange(2.0, 2 + unit.shape[1])))
    order = np.argsort(along, kind="stable")
    along = along[order]
    reach = (2.0 + unit.shape[1]) * max(_APART, 2 * _SAME * float(error.max()))
    ends = np.searchsorted(along, along + reach, side="right")
    keep = np.ones(len(unit), dtype=bool)
    for place in np.flatnonzero(ends > np.arange(1, len(unit) + 1)):
        k = order[place]
        for j in order[place + 1 : ends[place]] if keep[k] else ():
            distance = min(np.linalg.norm(unit[j] - unit[k]), np.linalg.norm(unit[j] + unit[k]))
            rounding = _SAME * (error[j] + error[k])
            if distance <= rounding <= _APART:
                keep[j] = False
            elif distance <= max(rounding, _APART):
                _refuse("rows are nearly parallel, or nearly meet in one place", max(distance, rounding))
    return unit[keep], error[keep]


def _refuse(what: str, size: float) -> None:
    raise NotEnumerable(
        f"gates: 'all' cannot tell all arrangements from rounding: in X {what} (by {size:.1e} of their length). "
        "Round X so that such rows agree, drop one of them, or sample arrangements instead, e.g. gates=1000."
    )


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
