"""Bounds of max ‖Gᵀu‖ over cones of so many rows that they are narrow: nearly rays, or sums of few.

For rows a_r of a cone, unit or shorter, and any z ≥ 0 all products of two (a_r·u) are non-negative in the cone, so

    uᵀMu ≤ (b·u)²,    b = Σ z_r a_r,   M = Σ z_r² a_r a_rᵀ

an elliptic cone around it.  With M = LLᵀ, β = L⁻¹b, n = β/‖β‖ and w = Lᵀu this is ‖w − (n·w)n‖ ≤ √(‖β‖² − 1) (n·w), and
0 ≤ n·w = (b·u)/‖β‖ ≤ ‖b‖‖u‖/‖β‖.  So u = γ·axis + γ·r·L⁻ᵀf with 0 ≤ γ ≤ ‖u‖, ‖f‖ ≤ 1 and f across n.  It is narrow for
z = 1/(a_r·x), x the analytic centre of the rows, which are the nearest to a point inside.

Where rows fall into parts with columns of their own, as a mixer's do by tokens, the cone is a product: each part has
its γ_t, Σγ_t² ≤ 1, and

    ‖Gᵀu‖ ≤ max ‖Σ_t γ_t G_tᵀaxis_t‖ + ‖[r_t (I − nnᵀ) L_t⁻¹G_t]_t‖

The first is over unit γ ≥ 0: cone-constrained PCA over an orthant of few dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.orthant import tightened
from provenet.cones.projection import Rows, in_spans
from provenet.cones.signs import PickedSigns, within

_EPS = torch.finfo(torch.float64).eps
_ROWS, _FEWER_ROWS, _WIDE = 6, 5, 256  # rows for each dimension, the nearest; fewer in more dimensions than that
_LEAST_ROWS = 0.25  # times the square of the dimensions: cones of fewer rows are wide
_STEPS, _EXPECTED, _CENTRED = 60, 12, 1e-8  # of Newton's method, at most and about, and its decrement at the end
_SHORT = 0.95  # of the way to a wall
_MOST_WIDTH = 1_100  # dimensions of a part
_MOST_WRONG = 1e-3  # relatively, of L⁻¹: beyond, rounding would have too much to say


class Axes(NamedTuple):
    """Of one cone in T parts: columns (T, w), axis (T, w), turn (T, w, w) = r (I − nnᵀ) L⁻¹.  doubt: what rounding may
    hide of a bound, by ‖G‖_F; tilt: and how far below zero γ may be."""

    columns: Tensor
    axis: Tensor
    turn: Tensor
    doubt: float
    tilt: float


class _Near(NamedTuple):
    """The rows next to the point inside, of B cones: their numbers and slacks (B, T, m); infinite where none is."""

    rows: Tensor
    slack: Tensor


def axes_of(rows: Rows, signs: PickedSigns, inside: Tensor, parts: int, each: int, off: float) -> list[Axes | None]:
    """Of the cones with these signs and points inside (B, p); None where one is not narrow.  Raises `deadline.TooLong`.

    each: rows of a sample, of which those of a part follow one another.  off: by how much, at most,
    a row is another than the cone's, of its length."""
    width = inside.shape[1] // parts
    too_few = rows.shape[0] // parts < _LEAST_ROWS * width**2
    if too_few or width > _MOST_WIDTH or inside.shape[1] % parts or each % parts:
        return [None] * len(inside)
    count = (_ROWS if width <= _WIDE else _FEWER_ROWS) * width
    deadline.need_in_parts(float(parts) * _EXPECTED * count * width**2)  # of one cone; the others are paced
    near = _nearest(rows, signs, inside, parts, each, count)
    return [
        _axes(rows, signs[k : k + 1], inside[k], near.rows[k], near.slack[k], off)
        for k in deadline.paced(range(len(inside)))
    ]


def narrow_bound(axes: Axes, G: Tensor) -> float:
    """An upper bound of max ‖Gᵀu‖ over unit u of the cone, for G (p, q)."""
    by_part = G[axes.columns]  # (T, w, q)
    along = torch.einsum("tw,twq->tq", axes.axis, by_part)
    across = torch.bmm(axes.turn, by_part).flatten(0, 1)
    return _norm_in_orthant(along, axes.tilt) + _norm(across) + axes.doubt * float(torch.linalg.vector_norm(G))


def _norm(matrix: Tensor) -> float:
    """An upper bound of the spectral norm."""
    size = float(matrix.abs().max())
    if size == 0:
        return 0.0
    unit = matrix / size
    square = unit @ unit.T if matrix.shape[0] <= matrix.shape[1] else unit.T @ unit
    slack = (matrix.numel() + 8 * sum(matrix.shape)) * _EPS  # as in the polar of the nuclear norm
    return size * float(torch.linalg.eigvalsh(square)[-1].clamp_min(0)) ** 0.5 * (1 + slack)


def _norm_in_orthant(matrix: Tensor, tilt: float) -> float:
    """An upper bound of max ‖Σγ_t row_t‖ over ‖γ‖ ≤ 1, γ ≥ 0 but for a part of length ``tilt``."""
    size = _norm(matrix)
    if size == 0 or len(matrix) == 1:
        return size
    return min(size, size * (tightened(matrix / size, 0.0).square ** 0.5 * (1 + 8 * _EPS) + tilt))


def _nearest(rows: Rows, signs: PickedSigns, inside: Tensor, parts: int, each: int, count: int) -> _Near:
    """The rows of each part with the least slack at the points inside; those within rounding of it are left out."""
    B = len(inside)
    slack, where = inside.new_zeros(B, parts, 0), inside.new_zeros(B, parts, 0, dtype=torch.long)
    for span, values in in_spans(rows, inside):
        side = within(signs, span)
        height = values.mul_(side).masked_fill_((side == 0) | (values <= _EPS), torch.inf)
        number = torch.arange(span.start, span.stop, device=inside.device).view(-1, parts, each // parts)
        shape = B, parts, -1
        height = height.view(B, -1, parts, each // parts).transpose(1, 2).reshape(shape)
        number = number.transpose(0, 1).reshape(parts, -1).expand(shape)
        slack, where = torch.cat([slack, height], 2), torch.cat([where, number], 2)
        if slack.shape[2] > count:
            slack, order = torch.topk(slack, count, dim=2, largest=False)
            where = torch.gather(where, 2, order)
    return _Near(where, slack)


def _axes(rows: Rows, signs: PickedSigns, inside: Tensor, near: Tensor, slack: Tensor, off: float) -> Axes | None:
    """Of one cone, with the rows ``near`` (T, m); ``off``: by how much, at most, a row is another than the cone's."""
    T, m = near.shape
    there = torch.isfinite(slack)
    columns, tables = [], []
    for row in near:
        table = rows.take(row) * signs.table[int(signs.gate), row][:, None].to(inside.dtype)
        own = (
            torch.arange(len(inside), device=inside.device) if T == 1 else torch.nonzero((table != 0).any(0)).flatten()
        )
        if len(own) != len(inside) // T:
            return None
        columns.append(own)
        tables.append(table[:, own])
    column, A = torch.stack(columns), torch.stack(tables) * there[:, :, None]
    if len(torch.unique(column)) != len(inside):
        return None
    z = _weights(A, inside[column], there)
    if z is None:
        return None
    # of rows that are off, Σ_{r≠s} z_r z_s (a_r·u)(a_s·u) may be −2·off·Σz·(b·u) and no less; that, and what b and M
    # round by, Cholesky's share included, is taken from M
    b = torch.einsum("tm,tmw->tw", z, A)
    scaled = z[:, :, None] * A
    M = torch.bmm(scaled.mT, scaled)
    width, total, size = M.shape[1], z.sum(1), torch.linalg.vector_norm(b, dim=1)
    trace = M.diagonal(dim1=1, dim2=2).sum(1)
    hazy = 2 * (off + (m + 8) * _EPS) * total
    less = 4 * size * hazy + 2 * hazy.square() + 4 * (m + width + 8) * _EPS * trace
    eye = torch.eye(width, dtype=M.dtype, device=M.device)
    M = M - less[:, None, None] * eye
    factor, failed = torch.linalg.cholesky_ex(M)
    if bool(failed.any()):
        return None
    inverse = torch.linalg.solve_triangular(factor, eye.expand_as(M), upper=False)
    beta = torch.bmm(inverse, b[:, :, None]).squeeze(2)
    square = beta.square().sum(1)
    n = beta / square.sqrt()[:, None]
    axis = torch.bmm(inverse.mT, beta[:, :, None]).squeeze(2) * (size / square)[:, None]
    radius = size / square.sqrt() * (square - 1).clamp_min(0).sqrt()
    turn = radius[:, None, None] * (inverse - n[:, :, None] * torch.bmm(n[:, None], inverse))
    # L⁻¹ is off by 8w‖L‖‖L⁻¹‖ units of itself at most, and with it axis and turn; then products round
    reach = torch.linalg.matrix_norm(inverse)
    wrong = 24 * width * _EPS * torch.linalg.matrix_norm(factor) * reach
    unsure = wrong * (reach.square() * size.square() / square.sqrt() + radius * reach)
    if not float(wrong.max()) <= _MOST_WRONG:
        return None
    rounds = 8 * len(inside) * _EPS * (torch.linalg.vector_norm(axis) + torch.linalg.vector_norm(turn))
    tilt = torch.linalg.vector_norm(hazy / size)
    return Axes(column, axis, turn, float(unsure.max() + rounds), float(tilt))


def _weights(A: Tensor, start: Tensor, there: Tensor) -> Tensor | None:
    """z (T, m) = 1/(m a_r·x) at the analytic centre x of the rows A (T, m, w) that are ``there``, on the unit sphere:
    the least of −Σ log(a_r·x) + m‖x‖²/2.  Any z ≥ 0 will do, this is a good one; None where rows are too few."""
    count = there.sum(1)
    x = start / torch.linalg.vector_norm(start, dim=1, keepdim=True).clamp_min(1e-300)
    eye = torch.eye(A.shape[2], dtype=A.dtype, device=A.device)
    for _ in range(_STEPS):
        height = torch.where(there, torch.bmm(A, x[:, :, None]).squeeze(2), 1.0)
        if bool((height <= 0).any()) or int(count.min()) <= A.shape[2]:
            return None
        scaled = A / height[:, :, None]
        slope = count[:, None] * x - scaled.sum(1)
        hessian = torch.bmm(scaled.mT, scaled) + count[:, None, None] * eye
        step = -torch.linalg.solve(hessian, slope)
        decrement = -(slope * step).sum(1)
        if float(decrement.max()) <= _CENTRED:
            break
        ratio = torch.bmm(scaled, step[:, :, None]).squeeze(2).amin(1)
        length = (_SHORT / (-ratio).clamp_min(1e-300)).clamp_max(1.0)
        x = x + length[:, None] * step
    return there / (height * count[:, None])
