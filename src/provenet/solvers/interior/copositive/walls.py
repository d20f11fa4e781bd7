"""What the copositive relaxation adds to the positive definite cone: aᵀTb ≥ 0 for pairs of rows of a cone (CP eq. 19).

T = Σ uuᵀ with Ku ≥ 0 has KTKᵀ ≥ 0.  Rows that others imply add nothing, and a row with itself is implied by T ⪰ 0:
left are the pairs of facets.  In the plane that is one pair a cone, and the converse holds too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import Table
from provenet.cones.facets import facets
from provenet.solvers.interior.blocks import root, to_blocks, to_vector

_HULL = 6  # dimensions up to which facets are found by a convex hull; from there on every row counts as one
_CENTRED = 1e-6  # of the Newton decrement
TIGHT_FACETS = 4  # doubly non-negative matrices of up to this size are completely positive


@dataclass(frozen=True)
class Walls:
    """Pairs of facets a, b (P, L, m), unit vectors, zero where ``there`` (P, L) is False.  normals (P, F, m): the
    facets themselves, zeros fill up."""

    a: Tensor
    b: Tensor
    there: Tensor
    normals: Tensor

    @staticmethod
    def of(cones: Table) -> Walls:
        m = cones.rows.shape[1]
        found = list(_facets_of(cones))
        pairs = [np.stack(np.triu_indices(len(normals), 1), axis=1) for normals in found]
        width = max([len(pair) for pair in pairs] + [1])
        a, b = np.zeros((len(found), width, m)), np.zeros((len(found), width, m))
        normals = np.zeros((len(found), max([len(rows) for rows in found] + [1]), m))
        for k, (rows, pair) in enumerate(zip(found, pairs, strict=True)):
            a[k, : len(pair)], b[k, : len(pair)] = rows[pair[:, 0]], rows[pair[:, 1]]
            normals[k, : len(rows)] = rows
        there = np.arange(width) < np.array([len(pair) for pair in pairs])[:, None]
        tensor = torch.from_numpy
        return Walls(tensor(a), tensor(b), tensor(there), tensor(normals))

    def scaled(self, G: Tensor) -> Walls:
        """In the coordinates of T̃, T = G T̃ Gᵀ."""
        return Walls(self.a @ G, self.b @ G, self.there, self.normals)

    def slack(self, T: Tensor) -> Tensor:
        """aᵀTb (P, L); one where there is no wall."""
        return torch.where(self.there, ((self.a @ T) * self.b).sum(2), 1.0)

    def change(self, dT: Tensor) -> Tensor:
        """aᵀ dT b (P, L); zero where there is no wall."""
        return ((self.a @ dT) * self.b).sum(2)

    def combined(self, weight: Tensor) -> Tensor:
        """Σ_l weight_l (a_l b_lᵀ + b_l a_lᵀ)/2, (P, m, m)."""
        mixed = (self.a * weight[:, :, None]).mT @ self.b
        return 0.5 * (mixed + mixed.mT)

    def vectors(self) -> Tensor:
        """(a bᵀ + b aᵀ)/2 of every wall as `to_vector` has it: (P, L, m(m+1)/2)."""
        P, L, m = self.a.shape
        outer = self.a[:, :, :, None] * self.b[:, :, None, :]
        return to_vector((0.5 * (outer + outer.mT)).view(-1, m, m)).view(P, L, -1)

    def work(self) -> float:
        """Multiply-adds of a Newton step in every cone by itself."""
        P, L, m = self.a.shape
        unknowns = m * (m + 1) / 2
        return P * unknowns**2 * (0.5 * L + unknowns)

    def centres(self, inside: Tensor) -> Tensor:
        """The analytic centre of every cone, max log det T + Σ log aᵀTb − tr T, by damped Newton steps (P, m, m); where
        a deadline ends them, a point inside."""
        m = inside.shape[1]
        eye = torch.eye(m, dtype=inside.dtype)
        # k_iᵀ(uuᵀ + εI)k_j ≥ k_iᵀu·k_jᵀu − ε
        room = torch.where(self.there, (self.a @ inside[:, :, None] * (self.b @ inside[:, :, None]))[:, :, 0], 1.0)
        T = inside[:, :, None] * inside[:, None, :] + 0.5 * room.amin(1).clamp_max(1.0)[:, None, None] * eye
        for _ in range(100):
            L = root(T)
            walls = self.scaled(L)
            bounce = torch.where(self.there, 1 / walls.slack(eye), 0.0)
            slope = to_vector(eye + walls.combined(bounce) - L.mT @ L).view(len(T), -1)
            c = walls.vectors() * bounce[:, :, None]
            H = torch.eye(c.shape[2], dtype=T.dtype) + c.mT @ c
            step = torch.linalg.solve(H, slope)
            decrement = (slope * step).sum(1).clamp_min(0).sqrt()
            if float(decrement.max()) < _CENTRED or not deadline.affords(self.work()):
                break
            step = step / (1 + decrement)[:, None]
            T = L @ (eye + to_blocks(step.reshape(-1), m)) @ L.mT
        return 0.5 * (T + T.mT)


def are_tight(cones: Table) -> bool:
    """Whether {T ⪰ 0, KTKᵀ ≥ 0} is known to be the hull of {uuᵀ : Ku ≥ 0} in every cone; the first one with too many
    facets says no."""
    return all(len(normals) <= TIGHT_FACETS for normals in _facets_of(cones))


def most_walls(cones: Table) -> int:
    """That a cone may have, where facets are not looked for; where they are, a few."""
    return 0 if cones.rows.shape[1] <= _HULL else math.comb(len(cones.rows), 2)


def _facets_of(cones: Table) -> Iterator[np.ndarray]:
    """The facets' normals of every cone, each once."""
    alive = torch.linalg.vector_norm(cones.rows, dim=1) > 0
    rows, signs = cones.rows[alive], cones.signs[:, alive]
    m = rows.shape[1]
    if len(rows) == 0:
        yield from [rows.numpy()] * len(signs)
        return
    if m == 2:
        yield from (np.unique(pair, axis=0) for pair in cones.faces.normals.numpy())
        return
    for sign, inside in zip(signs.numpy(), cones.inside.numpy(), strict=True):
        K = np.unique(rows.numpy() * sign[:, None], axis=0)
        yield K[facets(K, inside)] if 1 < m <= _HULL and len(K) > m else K
