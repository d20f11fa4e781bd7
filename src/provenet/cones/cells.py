"""The largest ‖Tv‖ on the unit vectors of simplicial cells, T linear and known at their corners."""

from __future__ import annotations

import torch
from torch import Tensor

_OUTSIDE = 1e-6  # of the largest weight: below zero by more, and a vector is outside a cell
_FLAT = 1e-4  # corners that span no more than this in some direction: weights are too uncertain to tell
_ROUNDING = 16  # times (p + r)·eps·tr C: what it may do to an eigenvalue of C = TᵀT, and more where corners are close
_MOST_CORNERS = 5  # of a cell whose facets are looked at


def largest_in_cells(corners: Tensor, images: Tensor) -> Tensor:
    """An upper bound (M,) of ‖Σ α_i w_i‖ over α ≥ 0 with ‖Σ α_i v_i‖ = 1, for unit corners v_i (M, k, r), k = r, no two
    of them at an obtuse angle, and their images w_i (M, k, p).

    Any T will do: ‖Σ α_i w_i‖ ≤ ‖Tv‖ + Σ α_i ‖w_i − Tv_i‖, and Σ α_i ≤ √k.  So what rounding does in small, flat cells
    makes a bound loose, never wrong.
    """
    k, r = corners.shape[1:]
    T = _linear(corners, images)
    missed = torch.linalg.vector_norm(images - torch.bmm(corners, T.mT), dim=2).amax(1)
    form = torch.bmm(T.mT, T)
    eps = _ROUNDING * (images.shape[2] + r) * torch.finfo(images.dtype).eps
    size = form.diagonal(dim1=1, dim2=2).sum(1)  # small, flat cells have images that differ, and so a large T
    peak = _peak(form, corners, eps * size)
    return peak.clamp_min(0).sqrt() * (1 + eps) + k**0.5 * (missed + eps * size.sqrt())


def _linear(corners: Tensor, images: Tensor) -> Tensor:
    """T (M, p, r) with Tv_i = w_i, or nearly so."""
    Q, R = torch.linalg.qr(corners.mT)
    R.diagonal(dim1=1, dim2=2).add_(torch.where(R.diagonal(dim1=1, dim2=2) == 0, 1e-300, 0.0))
    return torch.bmm(torch.linalg.solve_triangular(R, images.mT, upper=True, left=False), Q.mT).nan_to_num_(0, 0, 0)


def _peak(form: Tensor, corners: Tensor, slack: Tensor) -> Tensor:
    """max vᵀCv (M,) over unit v of cells (M, k, r), for C (M, r, r) with eigenvalues that may be off by ``slack`` (M,).

    A largest point within a cell is a top eigenvector of C on the cell's span.  Where one is found that is not in the
    cell, neither it nor its opposite, a facet has the largest: from any top eigenvector in the cell the arc to this one
    leaves it through a facet, and C is no smaller on the way.
    """
    k = corners.shape[1]
    Q, R = torch.linalg.qr(corners.mT)  # (M, r, k), (M, k, k)
    value, vectors = torch.linalg.eigh(torch.bmm(Q.mT, torch.bmm(form, Q)))
    peak = value[:, -1] + slack
    if k == 1 or k > _MOST_CORNERS:
        return peak
    span = R.diagonal(dim1=1, dim2=2).abs().amin(1)
    sound = torch.where((span > _FLAT)[:, None, None], R, torch.eye(k, dtype=R.dtype, device=R.device))
    weight = torch.linalg.solve_triangular(sound, vectors[:, :, -1:], upper=True).squeeze(2)
    size = _OUTSIDE * weight.abs().amax(1)
    outside = torch.nonzero((weight.amin(1) < -size) & (weight.amax(1) > size) & (span > _FLAT)).flatten()
    if outside.numel() == 0:
        return peak
    others = [[j for j in range(k) if j != i] for i in range(k)]
    more = slack[outside] / span[outside]  # how far rounding may turn a facet
    facets = torch.stack([_peak(form[outside], corners[outside][:, rest], more) for rest in others])
    peak[outside] = torch.minimum(peak[outside], facets.amax(0) + more)
    return peak
