"""Branch and bound over the directions of u, for max ‖Σ_r σ(Φ_r u) M_r‖ over all unit u, in few dimensions.

A cell is a simplicial cone, u = Σ α_i u_i with α ≥ 0.  A row whose sides Φ_r u_i have one sign is open or closed all
over it; of the others σ(z) = z/2 + |z|/2.  So on the cell

    f(u) ≤ F(u) = ‖Gᵀu‖ + ½ Σ_{undecided} ‖M_r‖ |Φ_r u|,      G = Σ_open Φ_r M_rᵀ + ½ Σ_undecided Φ_r M_rᵀ

which is convex and positively homogeneous: at most the linear Σ α_i F(u_i).  Cells are halved across their longest
edge, the worst first.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.vectors import unit

MOST_DIMENSIONS = 5
_WORK = 4e9  # multiply-adds
_NODES = 60_000


class Leaves(NamedTuple):
    """Bounds of the maximum, and a unit u (r,) that attains the lower."""

    lower: float
    upper: float
    u: Tensor


def branch(rows: Tensor, weights: Tensor, lower: float, upper: float, goal: float, tolerance: float) -> Leaves:
    """For Φ (N, r), M (N, q) and bounds known before: until upper ≤ max(goal, lower(1 + tolerance)), or a budget
    or a deadline is used up.

    ``upper`` holds whenever the search ends: it is the largest bound of the cells that are left.
    """
    N, r = rows.shape
    budget = int(min(_NODES, _WORK / (r * N * (r + weights.shape[1]))))
    wave = max(2, batches.count(2 * r * N, batches.PASS))
    signs = torch.cartesian_prod(*[torch.tensor([1.0, -1.0], dtype=rows.dtype)] * r).view(-1, r)
    cells = torch.diag_embed(signs)  # (B, r generators, r): the orthants
    bound, value, u = _judge(rows, weights, cells, wave)
    bound = bound.clamp_max(upper)
    lower, where = _better(lower, torch.zeros(r, dtype=rows.dtype), value, u)
    done = 0.0  # the largest bound of a cell that needs no more splitting
    spent = len(cells)
    while True:
        goal = max(goal, lower * (1 + tolerance))
        settled = bound <= goal
        done = max([done, *bound[settled].tolist()])
        cells, bound = cells[~settled], bound[~settled]
        if len(cells) == 0 or spent >= budget or deadline.over():
            break
        worst = torch.argsort(bound, descending=True)
        split, rest = worst[:wave], worst[wave:]
        children = _halved(cells[split])
        parents = bound[split].repeat(2)
        more, value, u = _judge(rows, weights, children, wave)
        lower, where = _better(lower, where, value, u)
        cells, bound = torch.cat([cells[rest], children]), torch.cat([bound[rest], torch.minimum(more, parents)])
        spent += len(children)
    return Leaves(lower, max([done, *bound.tolist()]), where)


def _judge(rows: Tensor, weights: Tensor, cells: Tensor, wave: int) -> tuple[Tensor, Tensor, Tensor]:
    """Upper bounds of cells (B, r, r), the largest f at a generator of each, and that generator."""
    parts = [_judge_some(rows, weights, some) for some in cells.split(wave)]
    bound, value, u = (torch.cat(part) for part in zip(*parts, strict=True))
    return bound, value, u


def _judge_some(rows: Tensor, weights: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sides = cells @ rows.T  # (B, r, N)
    opened, closed = (sides >= 0).all(1), (sides <= 0).all(1)
    share = torch.where(opened, 1.0, torch.where(closed, 0.0, 0.5)).to(rows.dtype)
    torn = (share == 0.5) * torch.linalg.vector_norm(weights, dim=1)
    at = torch.linalg.vector_norm((sides * share[:, None]) @ weights, dim=2)
    at = at + 0.5 * (sides.abs() @ torn[:, :, None]).squeeze(2)  # F(u_i), (B, r)
    value = torch.linalg.vector_norm(sides.clamp_min(0) @ weights, dim=2)
    best = value.argmax(1)
    here = torch.arange(len(cells))
    return _linear_bound(cells, at), value[here, best], cells[here, best]


def _linear_bound(cells: Tensor, at: Tensor) -> Tensor:
    """The smaller of ‖ℓ‖ and max_i F(u_i)·‖e‖, where ℓᵀu_i = F(u_i) and eᵀu_i = 1: as Σα_i = eᵀu ≤ ‖e‖.

    The first is tight where F is largest inside the cell, the second where it is at a generator.
    """
    largest = at.amax(1, keepdim=True)
    return torch.minimum(_longest(cells, at), largest[:, 0] * _longest(cells, torch.ones_like(at)))


def _longest(cells: Tensor, at: Tensor) -> Tensor:
    """‖ℓ‖ with ℓᵀu_i ≥ at_i ≥ 0, checked and not merely solved for; infinite where it cannot be had."""
    slope, failed = torch.linalg.solve_ex(cells, at)
    met = torch.einsum("brk,bk->br", cells, slope)
    bound = torch.linalg.vector_norm(slope, dim=1)
    stretch = torch.where(at > 0, at / met, 1.0).amax(1).clamp_min(1.0)
    short = torch.where(at > 0, 0.0, -met).amax(1)  # where at_i = 0 rounding may leave ℓᵀu_i a little below it
    valid = (failed == 0) & (stretch < 2) & ((met > 0) | (at == 0)).all(1) & (short <= 1e-14 * bound)
    return torch.where(valid & torch.isfinite(bound), bound * stretch * (1 + 1e-12), torch.inf)


def _halved(cells: Tensor) -> Tensor:
    """Each cell cut across its longest edge, the middle back on the sphere: (2B, r, r)."""
    B, r, _ = cells.shape
    if r == 1:
        return cells.repeat(2, 1, 1)
    a, b = torch.triu_indices(r, r, 1)
    cosine = (cells[:, a] * cells[:, b]).sum(2)  # (B, edges)
    longest = cosine.argmin(1)
    here = torch.arange(B)
    middle = unit(cells[here, a[longest]] + cells[here, b[longest]])
    left, right = cells.clone(), cells.clone()
    left[here, a[longest]], right[here, b[longest]] = middle, middle
    return torch.cat([left, right])


def _better(lower: float, where: Tensor, value: Tensor, u: Tensor) -> tuple[float, Tensor]:
    best = int(value.argmax())
    return (float(value[best]), u[best]) if float(value[best]) > lower else (lower, where)
