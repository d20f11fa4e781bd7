"""Cone-constrained PCA, exactly, in two and three dimensions.

max ‖Gᵀu‖ over ‖u‖ ≤ 1, Ku ≥ 0 is attained at the top eigenvector of GGᵀ on some face of the cone: the cone itself, a
facet, or a ray.  In the plane and in space these are few.  Faces are taken with a hair of tolerance, so that the value
is an upper bound even where rounding moves a vertex.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from provenet.cones.facets import facets

Array = NDArray[np.float64]
_HAIR = 1e-9  # a unit vector violating unit rows by less is taken to be in the cone


def largest_in_cone(G: Array, K: Array, inside: Array) -> tuple[float, Array]:
    """(max ‖Gᵀu‖, the u) for G (r, c), unit rows K (N, r) and a point with K·inside > 0, r ≤ 3; zero rows left out."""
    R = G @ G.T
    r = len(R)
    if r == 1:
        return float(np.sqrt(R[0, 0])), np.sign(inside) if len(K) else np.ones(1)
    if len(K) == 0:
        return _best(R, np.eye(r), K)
    K = K[facets(K, inside)]
    candidates = [np.eye(r)]  # each face as an orthonormal basis (r, dimension) of the space it spans
    if r == 3:
        candidates += [np.linalg.qr(np.column_stack([k, np.eye(3)]))[0][:, 1:3] for k in K]
    rays = _rays(K)
    candidates += [ray[:, None] for ray in rays]
    best, where = 0.0, np.zeros(r)
    for basis in candidates:
        value, u = _best(R, basis, K)
        if value > best:
            best, where = value, u
    return best, where


def _best(R: Array, basis: Array, K: Array) -> tuple[float, Array]:
    """The largest √(uᵀRu) among eigenvectors on a face that lie in the cone; zero where none does.

    Equal eigenvalues leave the eigenvectors undetermined: then the whole face has that value, and so have its rays.
    """
    values, vectors = np.linalg.eigh(basis.T @ R @ basis)
    for k in range(len(values))[::-1]:
        u = basis @ vectors[:, k]
        for sign in (1.0, -1.0):
            if len(K) == 0 or (K @ (sign * u)).min() >= -_HAIR:
                return float(np.sqrt(max(values[k], 0.0))), sign * u
    return 0.0, basis[:, 0]


def _rays(K: Array) -> Array:
    """Directions where two facets meet (or one, in the plane), both ways; the cone keeps those that are its own."""
    if K.shape[1] == 2:
        across = np.stack([-K[:, 1], K[:, 0]], axis=1)
    else:
        i, j = np.triu_indices(len(K), 1)
        across = np.cross(K[i], K[j])
        length = np.linalg.norm(across, axis=1)
        across = across[length > 1e-12] / length[length > 1e-12, None]
    return across
