"""The conjugate of a loss as an interior method needs it: smooth inside its domain, infinite at the border."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.losses import Huber, Logistic, Loss, Softmax, Squared


@dataclass(frozen=True)
class Conjugate(ABC):
    """L*(Θ), with ∇L*(Θ) = Ŷ and (∇²L*(Θ))⁻¹ = ∇²L(Ŷ) where Θ = ∇L(Ŷ)."""

    loss: Loss

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


class _OfSquared(Conjugate):
    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return theta / self.loss.weight + self.loss.target


class _OfLabels(Conjugate):
    """Softmax and logistic loss: probabilities Θ/w + Y, whose entropy keeps them positive."""

    def _chances(self, theta: Tensor) -> Tensor:
        return theta / self.loss.weight + self.loss.target

    def inside(self, theta: Tensor) -> bool:
        chances = self._chances(theta)
        return float(chances.min()) > 0 and (isinstance(self.loss, Softmax) or float(chances.max()) < 1)

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        chances = self._chances(theta)
        return chances.log() if isinstance(self.loss, Softmax) else torch.logit(chances)


class _OfHuber(Conjugate):
    """|Θ| ≤ wδ, kept by a barrier."""

    def _room(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.loss, Huber)
        edge = self.loss.weight * self.loss.delta
        return edge - theta, edge + theta

    def inside(self, theta: Tensor) -> bool:
        above, below = self._room(theta)
        return float(torch.minimum(above, below).min()) > 0

    def value(self, theta: Tensor, mu: float) -> float:
        if not self.inside(theta):
            return float("inf")
        above, below = self._room(theta)
        return float(self.loss.conjugate(theta)) - mu * float((above.log() + below.log()).sum())

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        above, below = self._room(theta)
        return theta / self.loss.weight + self.loss.target + mu * (1 / above - 1 / below)

    def flat(self, theta: Tensor, mu: float, direction: Tensor) -> Tensor:
        above, below = self._room(theta)
        return direction / (1 / self.loss.weight + mu * (above.square().reciprocal() + below.square().reciprocal()))


_CONJUGATES: dict[type[Loss], type[Conjugate]] = {
    Squared: _OfSquared,
    Softmax: _OfLabels,
    Logistic: _OfLabels,
    Huber: _OfHuber,
}


def conjugate_of(loss: Loss) -> Conjugate | None:
    """None for a loss whose conjugate is not written here."""
    kind = _CONJUGATES.get(type(loss))
    return None if kind is None else kind(loss)
