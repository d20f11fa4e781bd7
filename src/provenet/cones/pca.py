"""Cone-constrained PCA: max ‖Gᵀu‖ over ‖u‖ ≤ 1, Ku ≥ 0, bounded from both sides (CP §3.2).

NP-hard in general.  Exact for one output (a projection) and in up to three dimensions (faces).  Else: a local search
below, the spectral norm above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from provenet.cones.cones import Cones
from provenet.cones.exact import largest_in_cone
from provenet.cones.projection import project

_SEARCH_STEPS = 30


@dataclass(frozen=True)
class ConePCA:
    """lower ≤ max ‖G_kᵀu‖ ≤ upper, each (B,); u (B, p): unit vectors that attain ``lower``.  ``exact``: (B,) bool."""

    lower: Tensor
    upper: Tensor
    u: Tensor
    exact: Tensor


def cone_pca(cones: Cones, G: Tensor) -> ConePCA:
    """For G (B, p, c), one matrix a cone."""
    if G.shape[2] == 1:
        return _one_output(cones, G[:, :, 0])
    if G.shape[1] <= 3:
        return _few_dimensions(cones, G)
    return _search(cones, G)


def _one_output(cones: Cones, g: Tensor) -> ConePCA:
    """max |gᵀu| is the longer of the projections of g and −g; multipliers bound it from above."""
    B, p = g.shape
    both = project(cones.rows, cones.signs.repeat(2, 1), torch.cat([g, -g]))
    length = torch.linalg.vector_norm(both.point, dim=1)
    eps = torch.finfo(g.dtype).eps
    rounding = (p + 4) * eps * (torch.linalg.vector_norm(g, dim=1).repeat(2) + both.multipliers.sum(1))
    upper = (length + rounding).view(2, B).amax(0)
    which = length.view(2, B).argmax(0)
    point = both.point.view(2, B, p)[which, torch.arange(B)]
    u = point / torch.linalg.vector_norm(point, dim=1, keepdim=True).clamp_min(1e-300)
    lower = (g * u).sum(1).abs()
    return ConePCA(torch.minimum(lower, upper), upper, u, torch.ones(B, dtype=torch.bool))


def _few_dimensions(cones: Cones, G: Tensor) -> ConePCA:
    alive = torch.linalg.vector_norm(cones.rows, dim=1) > 0
    rows = cones.rows[alive].numpy()
    found = [
        largest_in_cone(matrix, rows * sign[:, None], inside)
        for matrix, sign, inside in zip(G.numpy(), cones.signs[:, alive].numpy(), cones.inside.numpy(), strict=True)
    ]
    value = torch.tensor([v for v, _ in found], dtype=G.dtype)
    slack = 100 * torch.finfo(G.dtype).eps * torch.linalg.matrix_norm(G)
    u = torch.from_numpy(np.stack([u for _, u in found]))
    return ConePCA((value - slack).clamp_min(0), value + slack, u, torch.ones(len(G), dtype=torch.bool))


def _search(cones: Cones, G: Tensor) -> ConePCA:
    """Power steps u ← Proj_K(GGᵀu) from both signs of the top singular vector; they never descend."""
    U, sigma, _ = torch.linalg.svd(G, full_matrices=False)
    spectral = sigma[:, 0] * (1 + (G.shape[1] + G.shape[2]) * 8 * torch.finfo(G.dtype).eps)
    best, where = torch.zeros_like(spectral), cones.inside.clone()
    for start in (U[:, :, 0], -U[:, :, 0], cones.inside):
        u = start
        last = None
        for _ in range(_SEARCH_STEPS):
            pull = torch.bmm(G, torch.bmm(G.mT, u[:, :, None])).squeeze(2)
            last = project(cones.rows, cones.signs, pull, last)
            norm = torch.linalg.vector_norm(last.point, dim=1, keepdim=True)
            u = torch.where(norm > 1e-12 * spectral[:, None] ** 2, last.point / norm.clamp_min(1e-300), cones.inside)
        value = torch.linalg.vector_norm(torch.bmm(G.mT, u[:, :, None]).squeeze(2), dim=1)
        better = value > best
        best, where = torch.where(better, value, best), torch.where(better[:, None], u, where)
    exact = best >= spectral * (1 - 1e-12)
    return ConePCA(torch.minimum(best, spectral), spectral, where, exact)
