"""Gate vectors of ReLU that lie on a hyperplane of the data: a point strictly inside the cone of their pattern, if it
has one."""

from __future__ import annotations

import torch
from scipy.optimize import linprog
from torch import Tensor

from provenet import batches

_CLEAR = 1e-12  # of unit rows and vectors: a point farther than this from all hyperplanes is inside
_INSIDE = 1e-9  # a cone whose points are all closer than this to a hyperplane has no inside


def moved_inside(vectors: Tensor, rows: Tensor, patterns: Tensor) -> Tensor:
    """Vectors (P, p) with the same patterns (P, N), those on a hyperplane Φ_r u = 0 moved off it; Φ (N, p).

    Raises ValueError for a pattern whose cone {u : (2D − 1)Φu ≥ 0} has no inside: rows that no u opens or closes all
    as it asks, but for ties.
    """
    size = vectors.abs().amax(1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    direction = vectors / size
    margin = rows.new_ones(len(vectors))
    for some in batches.slices(len(rows), len(vectors), batches.TILE):
        length = torch.linalg.vector_norm(rows[some], dim=1)
        sides = (direction @ rows[some].T).div_(length).masked_fill_(length == 0, torch.inf)
        margin = torch.minimum(margin, torch.where(patterns[:, some] | (length == 0), sides, -sides).amin(1))
    moved = vectors.clone()
    for k in torch.nonzero(margin <= _CLEAR * torch.linalg.vector_norm(direction, dim=1)).flatten().tolist():
        moved[k] = _innermost(rows, patterns[k], k)
    return moved


def _innermost(rows: Tensor, pattern: Tensor, gate: int) -> Tensor:
    """The u with max_j |u_j| ≤ 1 farthest from all hyperplanes: max t with Ku ≥ t, for the unit rows K (N', p) of Φ,
    signed, without those that are zero."""
    length, p = torch.linalg.vector_norm(rows, dim=1, keepdim=True), rows.shape[1]
    cone = (torch.where(pattern[:, None], rows, -rows) / length)[length[:, 0] > 0]
    walls = torch.cat([-cone, torch.ones(len(cone), 1, dtype=cone.dtype)], dim=1).numpy()
    best = linprog([0.0] * p + [-1.0], A_ub=walls, b_ub=[0.0] * len(cone), bounds=[(-1, 1)] * p + [(None, 1)])
    u = torch.from_numpy(best.x[:p]) if best.status == 0 else torch.zeros(p, dtype=cone.dtype)
    if not float((cone @ u).min()) > _INSIDE:
        raise ValueError(
            f"gates: gate {gate} lies on a row of the data, and the pattern it has by its ties is no u's but on that "
            "row: its cone has no inside. Move the gate a little, off the row."
        )
    return u
