"""The conjugate of a loss as an interior method needs it: smooth inside its domain, infinite at the border."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from torch import Tensor
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from provenet.losses.base import Loss

L_co = TypeVar("L_co", bound="Loss", covariant=True, default="Loss")


@dataclass(frozen=True)
class Conjugate(ABC, Generic[L_co]):
    """L*(Θ), with ∇L*(Θ) = Ŷ and (∇²L*(Θ))⁻¹ = ∇²L(Ŷ) where Θ = ∇L(Ŷ)."""

    loss: L_co

    def value(self, theta: Tensor, mu: float) -> float:
        """L*(Θ), plus μ times a barrier where L* has none of its own; +∞ from the border on."""
        return float(self.loss.conjugate(theta)) if self.inside(theta) else float("inf")

    def inside(self, theta: Tensor) -> bool:
        return True

    @abstractmethod
    def slope(self, theta: Tensor, mu: float) -> Tensor:
        """The gradient of ``value``."""

    def flat(self, theta: Tensor, mu: float, direction: Tensor) -> Tensor:
        """The inverse of the Hessian of ``value`` times a direction."""
        return self.loss.hessian_product(self.slope(theta, mu), direction)

    def _shifted(self, theta: Tensor) -> Tensor:
        """Θ/w + Y: predictions of the squared loss, probabilities of the losses of labels."""
        return theta / self.loss.weight + self.loss.target
