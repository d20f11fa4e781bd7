"""Branch and bound for cone-constrained PCA, over output directions, in many cones at once.

max ‖Gᵀu‖ over unit u in the cone is max f(v) over unit v, f(v) = ‖Proj_K(Gv)‖, which is convex and positively
homogeneous.  So on a simplicial cell, v = Σ α_i v_i with α ≥ 0, it is at most the linear function ℓᵀv that meets it at
the v_i, and at most ‖ℓ‖ on unit vectors; where ℓ is not in the cell, at most what its facets allow.  The excess falls
with the square of the cell's size; where one ray of the cone serves all of a cell, it is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Table
from provenet.cones.projection import project

_MOST_OUTPUTS = 6  # beyond, the first 2^c cells are too coarse to be of use
_WAVE = 2_048  # cells split at a time,
_WORK = 2**23  # (cells × (rows + p³)) at most
_ROUNDING = 1e-14  # of a few sums of products
_OUTSIDE = 1e-6  # ℓ is outside a cell where a weight is below zero by more than rounding
_MOST_FACETS = 6  # of a cell whose facets are looked at


class Leaf(NamedTuple):
    """Bounds (B,) and unit vectors u (B, p) of the cones that attain the lower ones."""

    lower: Tensor
    upper: Tensor
    u: Tensor


def branch_and_bound(
    cones: Table,
    G: Tensor,
    lower: Tensor,
    upper: Tensor,
    enough: float,
    nodes: int,
    tolerance: float,
) -> Leaf:
    """For G (B, p, c) and bounds (B,) known before: until upper ≤ max(enough, lower(1 + tolerance)), ``nodes`` cells,
    or a deadline.

    ``upper`` holds at any time: it is the largest bound of a cell, and never more than the one known before.
    """
    B, p, _ = G.shape
    basis = torch.linalg.svd(G, full_matrices=False)[2].mT  # (B, c, r): v beyond it changes nothing
    G = torch.bmm(G, basis)
    r = G.shape[2]
    wave = max(min(_WAVE, _WORK // (cones.rows.shape[0] + p**3)), 1)
    best, where = lower.clone(), cones.inside.clone()
    if r > _MOST_OUTPUTS:
        return Leaf(torch.zeros_like(lower), upper, where)
    orthants = torch.diag_embed(torch.cartesian_prod(*[G.new_tensor([1.0, -1.0])] * r).view(-1, r))
    everyone = torch.arange(B, device=G.device)
    gate = everyone.repeat_interleave(len(orthants))
    cells = orthants.repeat(B, 1, 1)  # (M, r, r): the generators of a cell are its rows
    f = G.new_empty(B, 2, r)  # at ±e_i
    for side, sign in enumerate((1.0, -1.0)):
        pull = sign * G.mT.reshape(B * r, p)
        f[:, side] = _evaluate(cones, G, pull, everyone.repeat_interleave(r), best, where).view(B, r)
    corner = (cells.diagonal(dim1=1, dim2=2) < 0).long()
    height = f[gate[:, None], corner, torch.arange(r, device=G.device)]
    bound = _bound(cells, height)
    closed = torch.zeros_like(lower)  # the largest bound of cells that are no longer looked at
    spent = len(gate)
    while True:
        goal = (best * (1 + tolerance)).clamp_min(enough)
        open_ = (bound > goal[gate]) & (upper[gate] > goal[gate])
        closed.scatter_reduce_(0, gate[~open_], bound[~open_], "amax")
        gate, cells, height, bound = gate[open_], cells[open_], height[open_], bound[open_]
        if len(gate) == 0 or spent >= nodes or deadline.over():
            break
        order = torch.argsort(bound, descending=True)
        now, later = order[:wave], order[wave:]
        halves = _halves(cones, G, gate[now], cells[now], height[now], best, where)
        inherited = bound[now].repeat(2)
        spent += 2 * len(now)
        gate, cells, height, bound = (
            torch.cat([gate[later], gate[now].repeat(2)]),
            torch.cat([cells[later], halves[0]]),
            torch.cat([height[later], halves[1]]),
            torch.cat([bound[later], torch.minimum(inherited, _bound(*halves))]),
        )
    closed.scatter_reduce_(0, gate, bound, "amax")
    return Leaf(best, torch.minimum(upper, closed), where)


def _evaluate(cones: Table, G: Tensor, pull: Tensor, gate: Tensor, best: Tensor, where: Tensor) -> Tensor:
    """f = ‖Proj_K(pull)‖ from above (M,); the projections are tried as better points of their gates."""
    found = project(cones.rows, cones.signs[gate], pull)
    length = torch.linalg.vector_norm(found.point, dim=1)
    u = found.point / length.clamp_min(1e-300)[:, None]
    value = torch.linalg.vector_norm(torch.bmm(G[gate].mT, u[:, :, None]).squeeze(2), dim=1)
    value = torch.where(found.violation <= 1e-9 * length, value, 0.0)
    better = torch.nonzero(value > best[gate]).flatten()
    best.scatter_reduce_(0, gate[better], value[better], "amax")
    top = better[value[better] == best[gate[better]]]
    where[gate[top]] = u[top]
    eps = torch.finfo(G.dtype).eps
    rounding = (pull.shape[1] + 4) * eps * (torch.linalg.vector_norm(pull, dim=1) + found.multipliers.sum(1))
    return length + rounding


def _bound(cells: Tensor, height: Tensor) -> Tensor:
    """max ℓᵀv over unit v of cells (M, k, r), for the ℓ of their span with ℓᵀv_i = f(v_i), heights (M, k).

    Small cells make for bad systems.  But any ℓ will do: f(v) ≤ ℓᵀv + Σ α_i (f(v_i) − ℓᵀv_i), and Σ α_i ≤ √k, as the
    generators of a cell make no obtuse angles.
    """
    k = cells.shape[1]
    gram = torch.bmm(cells, cells.mT)
    weight = torch.linalg.solve(gram, height[:, :, None])  # ℓ = Σ α_i v_i
    weight = weight + torch.linalg.solve(gram, height[:, :, None] - torch.bmm(gram, weight))
    slope = torch.bmm(cells.mT, weight)
    missed = (height - torch.bmm(cells, slope).squeeze(2)).clamp_min(0).amax(1)
    length = torch.linalg.vector_norm(slope, dim=(1, 2))
    bound = (length + k**0.5 * missed) * (1 + _ROUNDING)
    weight = weight.squeeze(2)
    outside = torch.nonzero(weight.amin(1) < -_OUTSIDE * weight.abs().amax(1)).flatten()
    if k == 1 or k > _MOST_FACETS or outside.numel() == 0:
        return bound
    others = [[j for j in range(k) if j != i] for i in range(k)]
    facets = torch.stack([_bound(cells[outside][:, rest], height[outside][:, rest]) for rest in others])
    bound[outside] = torch.minimum(bound[outside], facets.amax(0))
    return bound


def _halves(
    cones: Table, G: Tensor, gate: Tensor, cells: Tensor, height: Tensor, best: Tensor, where: Tensor
) -> tuple[Tensor, Tensor]:
    """Each cell cut in two across its longest edge: cells (2M, r, r) and f at their generators (2M, r)."""
    M, r, _ = cells.shape
    distance = torch.cdist(cells, cells).flatten(1)
    longest = distance.argmax(1)
    i, j = longest // r, longest % r
    m = torch.arange(M, device=cells.device)
    middle = cells[m, i] + cells[m, j]
    middle = middle / torch.linalg.vector_norm(middle, dim=1, keepdim=True)
    pull = torch.bmm(G[gate], middle[:, :, None]).squeeze(2)
    value = _evaluate(cones, G, pull, gate, best, where)
    first, second, f1, f2 = cells.clone(), cells.clone(), height.clone(), height.clone()
    first[m, i], second[m, j], f1[m, i], f2[m, j] = middle, middle, value, value
    return torch.cat([first, second]), torch.cat([f1, f2])
