"""Many second-order cones {(t, u) : ‖u‖ ≤ t} at once, in Nesterov–Todd coordinates.

A point is a pair (head, tail) of shapes (J,) and (J, p).  For x, z inside, W maps both to one: W z = W⁻¹x = point.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Points = tuple[Tensor, Tensor]


def determinant(x: Points) -> Tensor:
    """t² − ‖u‖², without its cancellation."""
    length = torch.linalg.vector_norm(x[1], dim=1)
    return (x[0] - length) * (x[0] + length)


def product(a: Points, b: Points) -> Points:
    """The Jordan product a ∘ b = (aᵀb, a₀b₁ + b₀a₁)."""
    return a[0] * b[0] + (a[1] * b[1]).sum(1), a[0][:, None] * b[1] + b[0][:, None] * a[1]


@dataclass(frozen=True)
class Scaling:
    """W = η [w₀, w₁ᵀ; w₁, I + w₁w₁ᵀ/(1 + w₀)], w₀² = 1 + ‖w₁‖²."""

    eta: Tensor
    head: Tensor
    tail: Tensor
    point: Points

    @staticmethod
    def of(x: Points, z: Points) -> Scaling:
        root_x, root_z = determinant(x).sqrt(), determinant(z).sqrt()
        (x0, x1), (z0, z1) = ((v[0] / r, v[1] / r[:, None]) for v, r in ((x, root_x), (z, root_z)))
        twice = (2 * (1 + x0 * z0 + (x1 * z1).sum(1))).sqrt()
        tail = (x1 - z1) / twice[:, None]
        head = (1 + tail.square().sum(1)).sqrt()
        half = Scaling((root_x / root_z).sqrt(), head, tail, x)
        return Scaling(half.eta, head, tail, half.times(z))

    def times(self, v: Points) -> Points:
        """W v."""
        along = (self.tail * v[1]).sum(1)
        tail = v[1] + self.tail * (v[0] + along / (1 + self.head))[:, None]
        return self.eta * (self.head * v[0] + along), self.eta[:, None] * tail

    def inverse(self, v: Points) -> Points:
        """W⁻¹ v."""
        along = (self.tail * v[1]).sum(1)
        tail = v[1] + self.tail * (along / (1 + self.head) - v[0])[:, None]
        return (self.head * v[0] - along) / self.eta, tail / self.eta[:, None]

    def divided(self, rho: Points) -> Points:
        """The v with point ∘ v = rho."""
        (a0, a1), (r0, r1) = self.point, rho
        v0 = (a0 * r0 - (a1 * r1).sum(1)) / determinant(self.point)
        return v0, (r1 - v0[:, None] * a1) / a0[:, None]

    def without_head(self, v: Points) -> tuple[Tensor, Tensor]:
        """Solves W⁻²(dt, du) + (0, dy) = v for fixed du: (dt, dy) = offset(v) at du = 0; see `slopes`."""
        ratio = 2 * self.head / self._stretch
        head = v[0] * self.eta.square() / self._stretch
        return head, v[1] + self.tail * (ratio * v[0])[:, None]

    def slopes(self, du: Tensor) -> tuple[Tensor, Tensor]:
        """What du changes in them: dt += …, dy −= C du, C = (I − 2w₁w₁ᵀ/(1 + 2‖w₁‖²))/η²."""
        along = (self.tail * du).sum(1) / self._stretch
        bent = (du - 2 * self.tail * along[:, None]) / self.eta.square()[:, None]
        return 2 * self.head * along, bent

    def root(self) -> Tensor:
        """C^½ (J, p, p): I but for the direction of w₁, where it is (1 + 2‖w₁‖²)^−½; over η."""
        # 1 − (1 + 2s)^−½ over s = ‖w₁‖², without cancellation at s = 0
        shrink = self._stretch.sqrt()
        factor = 2 / (shrink * (shrink + 1))
        eye = torch.eye(self.tail.shape[1], dtype=self.tail.dtype)
        return (eye - factor[:, None, None] * self.tail[:, :, None] * self.tail[:, None, :]) / self.eta[:, None, None]

    @property
    def _stretch(self) -> Tensor:
        return 1 + 2 * self.tail.square().sum(1)

    def longest(self, v: Points) -> float:
        """The largest step along v, given in the coordinates of ``point``, that stays inside."""
        root = determinant(self.point).sqrt()
        a0, a1 = self.point[0] / root, self.point[1] / root[:, None]
        along = a0 * v[0] - (a1 * v[1]).sum(1)
        tail = v[1] - ((along + v[0]) / (a0 + 1))[:, None] * a1
        worst = float(((torch.linalg.vector_norm(tail, dim=1) - along) / root).max())
        return 1 / worst if worst > 0 else float("inf")
