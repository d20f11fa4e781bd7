"""The length of vectors in cones: ‖z_k‖ where K_k z_k ≥ 0, else infinite.

With one output, a ReLU block is a pair of such vectors, one for each sign of the second layer, and in contrast to the
cone-nuclear norm of their difference this has a prox: the projection on the cone, shortened.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.cones import Projection, Region, project
from provenet.cones.projection import least
from provenet.gauges.base import Bounds, ProxGauge
from provenet.variable import Factors, Stack, factorise

_OUTSIDE = 1e-9  # of ‖z‖: a unit row violated by more says that z is not in the cone


@dataclass(frozen=True)
class ConeNorm(ProxGauge):
    """For stacks (P, p, 1)."""

    region: Region

    def restrict(self, gates: Tensor) -> ConeNorm:
        return ConeNorm(self.region.restrict(gates))

    def within(self, basis: Tensor) -> ConeNorm:
        return ConeNorm(self.region.within(basis))

    def values(self, stack: Stack) -> Tensor:
        z = stack[:, :, 0]
        norm = torch.linalg.vector_norm(z, dim=1)
        worst, _ = least(self.region.rows, self.region.signs, z)
        return torch.where(worst >= -_OUTSIDE * norm, norm, torch.inf)

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        return self.prox_near(stack, step, None)[:2]

    def prox_near(self, stack: Stack, step: float, near: Projection | None) -> tuple[Stack, Tensor, Projection]:
        """What is projected on length ``step`` or less is nothing after; its projection need not be found."""
        found = project(self.region.rows, self.region.signs, stack[:, :, 0], near, enough=step)
        norm = torch.linalg.vector_norm(found.point, dim=1)
        shrunk = (norm - step).clamp_min(0)
        return (found.point * (shrunk / norm.clamp_min(1e-300))[:, None])[:, :, None], shrunk, found

    def polar(self, stack: Stack) -> Bounds:
        """‖Proj_K(g)‖; multipliers bound it from above, whatever their accuracy."""
        g = stack[:, :, 0]
        found = project(self.region.rows, self.region.signs, g)
        norm = torch.linalg.vector_norm(found.point, dim=1)
        size = torch.linalg.vector_norm(g, dim=1)
        noise = 2 * (g.shape[1] + 4) * torch.finfo(g.dtype).eps * (size + found.multipliers.sum(1))
        reached = (g * found.point).sum(1) / norm.clamp_min(1e-300)
        return Bounds((torch.minimum(reached, norm) - noise).clamp_min(0), norm + noise)

    def factorise(self, stack: Stack) -> Factors:
        return factorise(stack)
