"""Branch and bound for cone-constrained PCA, over output directions, in many cones at once.

max ‖Gᵀu‖ over unit u in the cone is max f(v) over unit v, f(v) = ‖Proj_K(Gv)‖ = min ‖Gv + Kᵀλ‖ over λ ≥ 0.  On a
simplicial cell, v = Σ α_i v_i with α ≥ 0, multipliers may be mixed as v is: λ = Σ α_i λ_i ≥ 0, so

    f(v) ≤ ‖Σ α_i w_i‖ = ‖Tv‖,    w_i = Gv_i + Kᵀλ_i the projections at the corners,  T the linear map with Tv_i = w_i.

The largest ‖Tv‖ on unit v of a cell is an eigenvalue, or one of a facet.  Where one face of the cone serves all of a
cell, f is ‖Tv‖ itself: cells need only be so small that faces no longer change, not so small that f is flat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.base import Region
from provenet.cones.cells import largest_in_cells
from provenet.cones.projection import Projection, Warm, project
from provenet.cones.recall import left_out
from provenet.vectors import unit

MOST_OUTPUTS = 6  # beyond, the first 2^r cells are too many and too coarse to be of use
_PASSES = 8  # over the rows that a projection takes, about
_WAVE = 2_048  # cells split at a time,
_WORK = 2**23  # (cells × (rows + p³)) at most
_NOTHING = 1e-13  # of the largest singular value: directions of v below it are left out, and accounted for


class Leaf(NamedTuple):
    """Bounds (B,) and unit vectors u (B, p) of the cones that attain the lower ones."""

    lower: Tensor
    upper: Tensor
    u: Tensor


def output_rank(G: Tensor) -> int:
    """How many directions of v matter, in the worst of G (B, p, c)."""
    sigma = torch.linalg.svdvals(G)
    return max(int((sigma > _NOTHING * sigma[:, :1]).sum(1).max()), 1) if len(G) else 1


def branch_and_bound(cones: Region, G: Tensor, upper: Tensor, suffices: Callable[[Tensor], Tensor], nodes: int) -> Leaf:
    """For G (B, p, c) and upper bounds (B,) known before: until each is at most what ``suffices`` makes of the lower
    bounds (B,) found so far, ``nodes`` projections, or a deadline.

    ``upper`` holds at any time: it is the largest bound of a cell, and never more than the one known before.
    """
    B, p, c = G.shape
    sigma, V = _directions(cones, G)
    r = V.shape[1]
    slack = left_out(G, V) + 8 * (p + c) * torch.finfo(G.dtype).eps * sigma
    search = _Search(cones, torch.bmm(G, V.mT))
    first = 2.0 * r * B * cones.rows.shape[0] * p  # of one pass for the corners of all orthants
    if r > MOST_OUTPUTS or not deadline.affords(_PASSES * first):
        return Leaf(search.best, upper, search.where)
    gate, cells = search.orthants()
    bound = search.bound(gate, cells, slack)
    closed = torch.zeros_like(upper)  # the largest bound of cells that are no longer looked at
    wave = max(min(_WAVE, _WORK // (cones.rows.shape[0] + p**3)), 1)
    while True:
        goal = suffices(search.best)
        open_ = (bound > goal[gate]) & (upper[gate] > goal[gate])
        closed.scatter_reduce_(0, gate[~open_], bound[~open_], "amax")
        gate, cells, bound = gate[open_], cells[open_], bound[open_]
        if len(gate) == 0 or r == 1 or len(search.v) >= nodes + 2 * r * B or deadline.over():
            break
        order = torch.argsort(bound, descending=True)
        now, later = order[:wave], order[wave:]
        halves, own = search.halves(gate[now], cells[now]), gate[now].repeat(2)
        smaller = torch.minimum(bound[now].repeat(2), search.bound(own, halves, slack))
        gate, cells = torch.cat([gate[later], own]), torch.cat([cells[later], halves])
        bound = torch.cat([bound[later], smaller])
    closed.scatter_reduce_(0, gate, bound, "amax")
    if cones.recall is not None and search.found is not None:
        cones.recall.keep(V, search.gate, search.v, search.found)
    return Leaf(search.best, torch.minimum(upper, closed), search.where)


def _directions(cones: Region, G: Tensor) -> tuple[Tensor, Tensor]:
    """The largest singular values of G (B,), and an orthonormal basis (B, r, c) of all directions of v that matter:
    that of the last search, whose corners are then met again, or G's own."""
    _, sigma, Vh = torch.linalg.svd(G, full_matrices=False)
    r = max(int((sigma > _NOTHING * sigma[:, :1]).sum(1).max()), 1)
    own = Vh[:, :r]
    return sigma[:, 0], own if cones.recall is None else cones.recall.basis(G, own, _NOTHING * sigma[:, 0])


class _Search:
    """Corners v (V, r) of cells, their gates (V,), the projections ``found`` there, by how much rounding may ``slip``
    these (V,); the largest ‖G_kᵀu‖ of each gate so far, and where.  A cell is the indices (r,) of its corners."""

    def __init__(self, cones: Region, G: Tensor):
        self.cones, self.G = cones, G
        B, _, r = G.shape
        self.v, self.slip = G.new_zeros(0, r), G.new_zeros(0)
        self.gate = G.new_zeros(0, dtype=torch.long)
        self.found: Projection | None = None
        self.best, self.where = G.new_zeros(B), cones.inside.clone()

    def orthants(self) -> tuple[Tensor, Tensor]:
        """The first cells (M, r), and their gates (M,): corners ±e_i of every gate."""
        B, _, r = self.G.shape
        gates = torch.arange(B, device=self.G.device)
        axes = torch.cat([torch.eye(r, dtype=self.G.dtype, device=self.G.device)] * 2)
        axes[r:] *= -1
        first = self._corners(gates.repeat_interleave(2 * r), axes.repeat(B, 1))
        sides = torch.cartesian_prod(*[torch.arange(2, device=self.G.device)] * r).view(-1, r)
        cells = torch.arange(r, device=self.G.device) + r * sides
        return gates.repeat_interleave(len(cells)), (first + 2 * r * gates[:, None, None] + cells).flatten(0, 1)

    def halves(self, gate: Tensor, cells: Tensor) -> Tensor:
        """Each cell (M, r) cut in two across its longest edge, (2M, r); an edge that cells share is cut once."""
        M, r = cells.shape
        v = self.v[cells]
        longest = torch.cdist(v, v).flatten(1).argmax(1)
        m = torch.arange(M, device=cells.device)
        i, j = longest // r, longest % r
        a, b = cells[m, i], cells[m, j]
        edge, which = torch.unique(torch.minimum(a, b) * len(self.v) + torch.maximum(a, b), return_inverse=True)
        owner = torch.zeros_like(edge).scatter_(0, which, m)
        middle = unit(v[owner, i[owner]] + v[owner, j[owner]])
        corner = self._corners(gate[owner], middle, a[owner]) + which
        first, second = cells.clone(), cells.clone()
        first[m, i], second[m, j] = corner, corner
        return torch.cat([first, second])

    def bound(self, gate: Tensor, cells: Tensor, slack: Tensor) -> Tensor:
        """An upper bound (M,) of f on each cell; a corner's slip counts √r times, as Σ α_i ≤ √r where no two corners
        make an obtuse angle."""
        assert self.found is not None
        largest = largest_in_cells(self.v[cells], self.found.point[cells])
        return largest + cells.shape[1] ** 0.5 * self.slip[cells].amax(1) + slack[gate]

    def _corners(self, gate: Tensor, v: Tensor, near: Tensor | None = None) -> int:
        """Projections at v (M, r), begun with the rows of corners ``near``; the index of the first.  They are tried
        as better points of their gates, too."""
        G = self.G[gate]
        pull = torch.bmm(G, v[:, :, None]).squeeze(2)
        found = project(self.cones.rows, self.cones.signs[gate], pull, self._start(gate, v, pull, near))
        length = torch.linalg.vector_norm(found.point, dim=1)
        u = found.point / length.clamp_min(1e-300)[:, None]
        value = torch.linalg.vector_norm(torch.bmm(G.mT, u[:, :, None]).squeeze(2), dim=1)
        value = torch.where(found.violation <= 1e-9 * length, value, 0.0)
        better = torch.nonzero(value > self.best[gate]).flatten()
        self.best.scatter_reduce_(0, gate[better], value[better], "amax")
        top = better[value[better] == self.best[gate[better]]]
        self.where[gate[top]] = u[top]
        eps = torch.finfo(G.dtype).eps
        slip = (pull.shape[1] + 4) * eps * (torch.linalg.vector_norm(pull, dim=1) + found.multipliers.sum(1))
        first = len(self.v)
        self.v, self.gate = torch.cat([self.v, v]), torch.cat([self.gate, gate])
        self.found = found if self.found is None else Projection.of_all([self.found, found])
        self.slip = torch.cat([self.slip, slip])
        return first

    def _start(self, gate: Tensor, v: Tensor, pull: Tensor, near: Tensor | None) -> Warm | None:
        """Tight rows of corners ``near``, or of those that the last search had nearer."""
        own = None if near is None or self.found is None else self.found.select(near)
        known = None if self.cones.recall is None else self.cones.recall.near(gate, v)
        if known is None:
            return None if own is None else Warm(own.rows, own.multipliers)
        cosine, rows, multipliers = known
        if own is not None:
            nearer = (cosine > (v * self.v[near]).sum(1))[:, None]
            return Warm(torch.where(nearer, rows, own.rows), torch.where(nearer, multipliers, own.multipliers))
        new = torch.nonzero(cosine <= 0).flatten()
        if new.numel():
            first = project(self.cones.rows, self.cones.signs[gate[new]], pull[new])
            rows[new], multipliers[new] = first.rows, first.multipliers
        return Warm(rows, multipliers)
