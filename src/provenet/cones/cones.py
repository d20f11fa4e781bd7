"""The cones of a problem's arrangements: K_k = (2D_k − I)Φ, one a gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from provenet.cones.exact import Faces, faces

_NOISE = 4.0  # times (p + 4)·eps: what any order of summation may make of a unit row times a vector


@dataclass(frozen=True)
class Cones:
    """rows (N, p): Φ with rows of unit length, or zero.  signs (P, N): ±1.  inside (P, p): a point of each interior.
    noise (N,): what rounding may do to the rows themselves, of their length; None: nothing."""

    rows: Tensor
    signs: Tensor
    inside: Tensor
    noise: Tensor | None = None

    @staticmethod
    def of(phi: Tensor, patterns: Tensor, inside: Tensor, noise: Tensor | None = None) -> Cones:
        """From the arrangement matrix (N, p), patterns (P, N) bool, their gate vectors (P, p), and the rounding (N,) of
        Φu for unit vectors u, where it is more than that of p products."""
        norm = torch.linalg.vector_norm(phi, dim=1, keepdim=True)
        alive = norm > 0
        rows = torch.where(alive, phi / norm.clamp_min(torch.finfo(phi.dtype).tiny), 0.0)
        signs = torch.where(patterns | ~alive.T, 1.0, -1.0).to(phi.dtype)
        relative = None if noise is None else noise / norm[:, 0].clamp_min(torch.finfo(phi.dtype).tiny)
        return Cones(rows, signs, _unit(inside), relative)

    @cached_property
    def faces(self) -> Faces:
        """Facets and rays of every cone, p ≤ 3; they are found once."""
        alive = torch.linalg.vector_norm(self.rows, dim=1) > 0
        return faces(self.rows[alive], self.signs[:, alive], self.inside)

    def restrict(self, gates: Tensor) -> Cones:
        some = replace(self, signs=self.signs[gates], inside=self.inside[gates])
        if "faces" in self.__dict__:
            some.__dict__["faces"] = Faces(*(part[gates] for part in self.faces))
        return some

    def within(self, basis: Tensor) -> Cones:
        """The same cones in the coordinates of an orthonormal basis (p, r) that spans all rows."""
        return Cones(self.rows @ basis, self.signs, _unit(self.inside @ basis), self.noise)

    def slack(self, u: Tensor, gate: Tensor) -> Tensor:
        """K_k(j) u_j, (N', N) for u (N', p)."""
        return (u @ self.rows.T).mul_(self.signs[gate])

    def pulled_inside(self, u: Tensor, gate: Tensor) -> Tensor:
        """u moved along the interior points until K_k u ≥ 0 in any order of summation; where it is so already, u."""
        inside = self.inside[gate]
        room = self.slack(inside, gate)
        alive = torch.linalg.vector_norm(self.rows, dim=1) > 0
        unit = _NOISE * (u.shape[1] + 4) * torch.finfo(u.dtype).eps + (0.0 if self.noise is None else self.noise)
        size = torch.linalg.vector_norm(u, dim=1, keepdim=True)
        missing = (2 * unit * size - self.slack(u, gate)).clamp_min(0)
        step = torch.where(alive, missing / (room - 2 * unit).clamp_min(torch.finfo(u.dtype).tiny), 0.0).amax(1)
        return torch.where(size > 0, u + step[:, None] * inside, u)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-300)
