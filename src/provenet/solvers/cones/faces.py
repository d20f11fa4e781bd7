"""Where neurons touch the walls of their cones, and what is left of a step there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import batches
from provenet.cones import Region, project
from provenet.cones.projection import Projection, take, touched
from provenet.variable import Factors

_TIGHT = 1e-8  # of ‖u‖: a unit row with so little slack is a wall that u touches
_SURE = 1e-9  # of ‖u‖: unit rows violated by more are no rounding
_SAME = 1e-9  # singular values of unit rows below this come from a row counted twice


@dataclass(frozen=True)
class Walls:
    """Rows that hold with equality: their signed, unit normals (N, m, p), with zeros to fill up."""

    normals: Tensor

    def joined(self, other: Walls) -> Walls:
        return Walls(torch.cat([self.normals, other.normals], dim=1))

    def face(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """What is across the walls' intersection, orthonormal rows or zeros (N, m, p), and the shortest steps (N, p) to
        it from u (N, p)."""
        U, sigma, Vh = torch.linalg.svd(self.normals, full_matrices=False)
        kept = sigma > _SAME
        basis = Vh * kept[:, :, None]
        height = torch.bmm(U.mT, torch.bmm(self.normals, u[:, :, None])).squeeze(2)
        return basis, -torch.bmm(basis.mT, (height / sigma.clamp_min(_SAME))[:, :, None]).squeeze(2)


def walls_of(region: Region, found: Projection) -> Walls:
    """The walls that a projection stopped at."""
    used = found.multipliers > 0
    most = max(int(used.sum(1).max()), 1)
    order = torch.argsort(used.to(torch.uint8), dim=1, descending=True, stable=True)[:, :most]
    weight = torch.gather(found.signs * used, 1, order)
    return Walls(take(region.rows, torch.gather(found.rows, 1, order)) * weight[:, :, None])


def feasible(region: Region, left: Tensor, gate: Tensor, start: Projection | None = None) -> Projection:
    """u_j (N, p) projected on the cones of their gates; ``start``: a projection of points nearby.

    A projection is accurate for the length of what it was given: where little is left of that, it is zero.
    """
    found = project(region.rows, region.signs[gate], left, start)
    sure = found.violation <= _SURE * torch.linalg.vector_norm(found.point, dim=1)
    return replace(found, point=found.point * sure[:, None])


def descent(region: Region, factors: Factors, slope: Tensor) -> tuple[Tensor, Walls]:
    """The steepest descent that the walls allow, (N, p + q), and the walls that bend it, for a slope (N, p + q).

    −∇_u is projected on the cone of directions that leave no cone at u; it is zero at stationary points only.
    """
    p = factors.left.shape[1]
    size = torch.linalg.vector_norm(factors.left, dim=1, keepdim=True)

    def bent(some: slice) -> Projection:
        signs = region.signs[factors.gate[some]]
        tight = touched(region.rows, signs, factors.left[some], _TIGHT * size[some])
        return project(region.rows, tight, -slope[some, :p])

    found = Projection.of_all(
        [bent(some) for some in batches.slices(factors.n_neurons, region.rows.shape[0], batches.BASIS)]
    )
    return torch.cat([found.point, -slope[:, p:]], dim=1), walls_of(region, found)
