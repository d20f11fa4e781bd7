"""From T_k ⪰ 0 with KTKᵀ ≥ 0 to neurons: T = Σ uuᵀ with Ku ≥ 0 (CP Remark 5.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.cones import Table, project

_DUST = 1e-12  # of the largest: columns this short are rounding
_FEW_FACETS = 6
_SHORT = 1e-6  # of the largest kᵀTk: too small to divide by
_SAME = 1e-9  # of KTKᵀ: rounding


def neurons(root: Tensor, normals: Tensor, cones: Table) -> tuple[Tensor, Tensor]:
    """Vectors u (N, m) of the cones and the gate of each (N,), for T_k = root rootᵀ (P, m, m), normals (P, F, m).

    A Cholesky factorisation along the facets: u = Tk/√(kᵀTk) is in the cone, for K·Tk ≥ 0, and T − uuᵀ has one rank
    less and k in its kernel.  In the plane the rest is along the other ray, and Σ uuᵀ = T.  With three facets some k
    leaves K(T − uuᵀ)Kᵀ ≥ 0.  With more the rest may leave the cone, and its vectors are projected: Σ uuᵀ is then near T
    at best.
    """
    P, m, _ = root.shape
    size = torch.linalg.matrix_norm(root)
    found, gates = [], []
    every = torch.arange(P)
    for _ in range(m):
        weight = normals @ root  # (P, F, m): rootᵀk of every facet
        length = torch.linalg.vector_norm(weight, dim=2)
        best = _pivot(weight, length)
        w, most = weight[every, best], length[every, best]
        # a line of the cone, on which no facet acts: any column will do
        column = torch.linalg.vector_norm(root, dim=1).argmax(1)
        free = most <= _DUST * size
        w = torch.where(free[:, None], torch.eye(m, dtype=root.dtype)[column], w / most[:, None].clamp_min(1e-300))
        u = torch.bmm(root, w[:, :, None])[:, :, 0]
        keep = torch.linalg.vector_norm(u, dim=1) > _DUST * size
        found.append(u[keep])
        gates.append(every[keep])
        root = root - u[:, :, None] * w[:, None, :]
    u, gate = torch.cat(found), torch.cat(gates)
    if m > 2:
        u = project(cones.rows, cones.signs[gate], u).point
    return cones.pulled_inside(u, gate), gate


def _pivot(weight: Tensor, length: Tensor) -> Tensor:
    """The facet k of each gate (P,) for which K(T − uuᵀ)Kᵀ is least negative, for rootᵀk (P, F, m) and their lengths;
    where facets are many, the longest."""
    longest = length.argmax(1)
    if weight.shape[1] > _FEW_FACETS:
        return longest
    scale = length.amax(1)[:, None, None].clamp_min(1e-300)
    C = (weight / scale) @ (weight / scale).mT  # KTKᵀ
    own = C.diagonal(dim1=1, dim2=2)
    rest = C[:, None] - C[:, :, :, None] * C[:, :, None, :] / own[:, :, None, None].clamp_min(1e-300)  # of each pivot
    least = rest.amin(dim=(2, 3))
    least = torch.where(own > _SHORT * own.amax(1, keepdim=True), least, -torch.inf)
    return torch.where(least.amax(1) > least.gather(1, longest[:, None])[:, 0] + _SAME, least.argmax(1), longest)
