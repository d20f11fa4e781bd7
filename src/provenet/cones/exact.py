"""Cone-constrained PCA, exactly, in up to three dimensions, for many cones at once.

max ‖Gᵀu‖ over ‖u‖ ≤ 1, Ku ≥ 0 is attained at the top eigenvector of R = GGᵀ on some face of the cone: the cone itself,
a facet, or a ray.  In the plane and in space these are few.  (Lower eigenvectors of a face are saddle points.)

Rounding moves an eigenvector by about eps·‖R‖ over the distance to the next eigenvalue.  So the upper bound takes a
top eigenvector that misses the cone by no more than that; where the next eigenvalue is as close as rounding, the
boundary of the face has the same value up to rounding, and the slack covers it.  In the same way a ray is turned, and
the more, the smaller the angle of the two facets that meet in it; where nothing is known of it, the spectral norm is
the bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from provenet import batches
from provenet.cones.facets import known_facets

_HAIR = 1e-9  # a unit vector violating unit rows by less is taken to be in the cone
_TURN = 64.0  # times eps·‖R‖/(λ₁ − λ₂): how far rounding may turn an eigenvector
_MOST_TURN = 0.1  # where it may turn it further, all of the face has nearly the same value
_RAY_TURN = 16.0  # times eps, over the sine of the angle of two facets: the same of the ray where they meet
_SAME = 1e-12  # facets whose normals differ by less are one: a cone without one of them is no smaller
_MOST_PAIRED = 48  # rows of which none is known to be redundant: all pairs of them may meet in a ray
_SLACK = 2 * _TURN / _MOST_TURN  # times eps·‖R‖: rounding of uᵀRu


class Faces(NamedTuple):
    """What bounds each cone: unit normals (B, F, r) of its facets and unit rays (B, F, r); zeros fill up.

    turn (B, F): how far rounding may have turned each ray."""

    normals: Tensor
    rays: Tensor
    turn: Tensor


class Extreme(NamedTuple):
    """lower ≤ max ‖Gᵀu‖ ≤ upper, equal up to rounding, and a unit vector u of the cone that attains ``lower``."""

    lower: Tensor
    upper: Tensor
    u: Tensor


def faces(rows: Tensor, signs: Tensor, inside: Tensor) -> Faces:
    """Of the cones {u : s_r Φ_r u ≥ 0}, for unit rows Φ (N, r), r ≤ 3, signs (B, N), points inside (B, r)."""
    r = rows.shape[1]
    if len(rows) == 0 or r == 1:
        half = inside.sign() if len(rows) else torch.zeros_like(inside)
        return Faces(half[:, None], half[:, None], half.new_zeros(len(half), 1))
    return _sectors(rows, signs, inside) if r == 2 else _polyhedral(rows, signs, inside)


def _sectors(rows: Tensor, signs: Tensor, inside: Tensor) -> Faces:
    """In the plane: the rows turned furthest to either side of the point inside."""
    normal = signs[:, :, None] * rows
    along = (normal * inside[:, None]).sum(2)
    across = normal[:, :, 1] * inside[:, None, 0] - normal[:, :, 0] * inside[:, None, 1]
    turn = torch.atan2(across, along)
    ends = torch.stack([turn.argmin(1), turn.argmax(1)], dim=1)
    normals = torch.gather(normal, 1, ends[:, :, None].expand(-1, -1, 2))
    quarter = torch.stack([-normals[:, :, 1], normals[:, :, 0]], dim=2)
    rays = torch.stack([quarter[:, 0], -quarter[:, 1]], dim=1)
    return Faces(normals, rays, torch.zeros_like(rays[:, :, 0]))


def _polyhedral(rows: Tensor, signs: Tensor, inside: Tensor) -> Faces:
    """In space: facets from a convex hull each, rays where neighbours meet; all pairs where the hull is flat."""
    phi, centre = rows.numpy(), inside.numpy()
    found = [_around(phi * sign[:, None], point) for sign, point in zip(signs.numpy(), centre, strict=True)]
    width = max(len(part) for pair in found for part in pair)
    padded = [[np.pad(part, ((0, width - len(part)), (0, 0))) for part in triple] for triple in found]
    normals, rays, turn = (torch.from_numpy(np.stack(parts)) for parts in zip(*padded, strict=True))
    return Faces(normals, rays, turn[:, :, 0])


def _around(K: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The facets' normals, the rays, both directions of each, and their turns (F, 1), of one cone in space."""
    known = known_facets(K, inside)
    if known is None and len(K) > _MOST_PAIRED:
        return _nothing_but(inside)
    normals = _apart(K if known is None else K[known])
    if known is None or len(normals) < 3:  # not known to be in cyclic order
        i, j = np.triu_indices(len(normals), 1)
    else:
        i = np.arange(len(normals))
        j = np.roll(i, -1)
    rays = np.cross(normals[i], normals[j])
    length = np.linalg.norm(rays, axis=1, keepdims=True)
    turn = np.minimum(_RAY_TURN * np.finfo(np.float64).eps / np.maximum(length, 1e-300), 1.0)
    rays = np.where(length > 0, rays / np.maximum(length, 1e-300), inside)  # any, where none is known
    return normals, np.concatenate([rays, -rays]), np.concatenate([turn, turn])


def _nothing_but(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a ray in the cone, with which no bound but the norm of R is taken."""
    full, _ = np.linalg.qr(np.column_stack([inside, np.eye(3)]))
    across = full[:, 1:3].T
    return np.concatenate([across, -across, inside[None]]), np.stack([inside, -inside]), np.ones((2, 1))


def _apart(normals: np.ndarray) -> np.ndarray:
    """In their order, without those that repeat an earlier one."""
    distance = np.linalg.norm(normals[:, None] - normals[None], axis=2)
    return normals[~np.tril(distance <= _SAME, -1).any(axis=1)]


def largest_in_cones(G: Tensor, bounding: Faces) -> Extreme:
    """For G (B, r, c), one matrix a cone, r ≤ 3."""
    F, rays = bounding.normals.shape[1], bounding.rays.shape[1]
    together = batches.count((2 + 2 * F + rays) * F, batches.BLOCK)
    parts = [G.split(together), *(part.split(together) for part in bounding)]
    found = [_largest(some, Faces(*own)) for some, *own in zip(*parts, strict=True)]
    return Extreme(*(torch.cat(each) for each in zip(*found, strict=True)))


def _largest(G: Tensor, bounding: Faces) -> Extreme:
    """Of all at once."""
    R = torch.bmm(G, G.mT)
    size = torch.linalg.matrix_norm(R)
    alive = bounding.normals.abs().amax(2) > 0  # (B, F)
    candidates = [_interior(R, size)]
    if R.shape[1] == 3:
        candidates.append(_facet_vectors(R, size, bounding.normals))
    there = bounding.rays.abs().amax(2) > 0
    candidates.append((bounding.rays, torch.where(there, bounding.turn, -torch.inf)))
    u = torch.cat([points for points, _ in candidates], dim=1)  # (B, C, r)
    turn = torch.cat([turned for _, turned in candidates], dim=1)  # (B, C); −∞: not a candidate
    value = torch.einsum("bcp,bpq,bcq->bc", u, R, u).clamp_min(0)
    slack = torch.einsum("bfp,bcp->bcf", bounding.normals, u)
    violation = -torch.where(alive[:, None], slack, torch.inf).amin(2)
    inside = (violation <= _HAIR) & (turn > -torch.inf)
    nearly = (violation <= turn.clamp_min(_HAIR)) & (turn > -torch.inf)
    rounding = _SLACK * torch.finfo(R.dtype).eps * size
    best, where = torch.where(inside, value, -1.0).max(1)
    far = torch.cat([torch.zeros_like(turn[:, : -bounding.turn.shape[1]]), bounding.turn], dim=1)
    most = torch.where(nearly, value + 2 * far * size[:, None], 0.0).amax(1)
    most = torch.where((bounding.turn > _MOST_TURN).any(1), size, torch.minimum(most, size))
    return Extreme(
        (best - rounding).clamp_min(0).sqrt(),
        (most + rounding).sqrt(),
        u[torch.arange(len(u), device=u.device), where],
    )


def _interior(R: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The top eigenvector, both ways, and how far rounding may have turned it."""
    values, vectors = torch.linalg.eigh(R)
    top = vectors[:, :, -1]
    gap = values[:, -1] - values[:, -2] if R.shape[1] > 1 else size
    return torch.stack([top, -top], dim=1), _turned(gap, size)[:, None].expand(-1, 2)


def _facet_vectors(R: Tensor, size: Tensor, normals: Tensor) -> tuple[Tensor, Tensor]:
    """The same on every facet: a 2 × 2 eigenproblem in the plane across its normal, in closed form."""
    smallest = normals.abs().argmin(2, keepdim=True)
    e = torch.linalg.cross(normals, torch.zeros_like(normals).scatter_(2, smallest, 1.0))
    length = torch.linalg.vector_norm(e, dim=2, keepdim=True)
    e = e / length.clamp_min(1e-300)
    f = torch.linalg.cross(normals, e)
    Re, Rf = torch.einsum("bpq,bfq->bfp", R, e), torch.einsum("bpq,bfq->bfp", R, f)
    a, b, d = (e * Re).sum(2), (e * Rf).sum(2), (f * Rf).sum(2)
    half = 0.5 * torch.atan2(2 * b, a - d)  # the angle of the top eigenvector
    top = half.cos()[:, :, None] * e + half.sin()[:, :, None] * f
    turned = _turned(torch.hypot(a - d, 2 * b), size[:, None])
    turned = torch.where(length[:, :, 0] > 0, turned, -torch.inf)
    return torch.cat([top, -top], dim=1), turned.repeat(1, 2)


def _turned(gap: Tensor, size: Tensor) -> Tensor:
    turn = _TURN * torch.finfo(gap.dtype).eps * size / gap.clamp_min(1e-300)
    return torch.where(turn > _MOST_TURN, 0.0, turn)
