"""The slope Θ of the loss in the interior point: of the prediction itself, or, where it has kinks, its own variable.

Huber's slope w·clamp(r, ±δ) of the residuals r = Ŷ − Y solves a problem with bounds, whose multipliers a, b ≥ 0 take
part in the complementarity like those of the cones:

    r = θ/w + a − b,    a·(wδ − θ) = 0,    b·(wδ + θ) = 0

A Newton step then has the curvature 1/(1/w + a/(wδ − θ) + b/(wδ + θ)), which is smooth.  A free intercept is one more
unknown a output, added to the residuals, with the equation Σθ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from provenet.losses import Loss

_CURVATURE = 1e-9  # of the largest: a sample may be flat
_POSITIVE = ("above", "below", "over", "under")


class Slope(Protocol):
    """All tensors are flat, (n,), but for the complementarity products, (k, n): k of them a sample."""

    def theta(self, loss: Loss, prediction: Tensor) -> Tensor: ...

    def curvature(self, loss: Loss, prediction: Tensor) -> Tensor:
        """dΘ/dŶ in a Newton step, a free intercept held."""

    def products(self) -> Tensor: ...

    def second(self, d: Slope) -> Tensor:
        """What a full step along d changes in the products beyond first order."""

    def offset(self, loss: Loss, prediction: Tensor, change: Tensor) -> Tensor:
        """dΘ where Ŷ stays, for the wanted change of the products."""

    def direction(self, loss: Loss, prediction: Tensor, dprediction: Tensor, change: Tensor) -> Slope: ...

    def fall(self, d: Slope) -> float:
        """The largest relative fall of what must stay positive, along d."""

    def moved(self, d: Slope, step: float) -> Slope: ...

    def fitted(self, prediction: Tensor) -> Slope:
        """Without a residual where the prediction has jumped, at the price of larger products."""


class Smooth:
    """Θ = ∇L(Ŷ): no variables."""

    def theta(self, loss: Loss, prediction: Tensor) -> Tensor:
        return loss.gradient(prediction.view(loss.target.shape)).reshape(-1)

    def curvature(self, loss: Loss, prediction: Tensor) -> Tensor:
        at = loss.at_best(prediction.view(loss.target.shape))
        return loss.plain.hessian_product(at, torch.ones_like(at)).reshape(-1).clamp_min(_CURVATURE * loss.smoothness())

    def products(self) -> Tensor:
        return torch.zeros(0, 1, dtype=torch.float64)

    def second(self, d: Slope) -> Tensor:
        return self.products()

    def offset(self, loss: Loss, prediction: Tensor, change: Tensor) -> Tensor:
        return torch.zeros_like(prediction)

    def direction(self, loss: Loss, prediction: Tensor, dprediction: Tensor, change: Tensor) -> Slope:
        return self

    def fall(self, d: Slope) -> float:
        return 0.0

    def moved(self, d: Slope, step: float) -> Slope:
        return self

    def fitted(self, prediction: Tensor) -> Slope:
        return self


@dataclass(frozen=True)
class Bent:
    """above = wδ − θ > 0 and below = wδ + θ > 0, each without the other's rounding; over, under > 0: a and b."""

    target: Tensor
    weight: Tensor
    above: Tensor
    below: Tensor
    over: Tensor
    under: Tensor
    shift: Tensor | None = None  # the free intercept (c,), where there is one

    @staticmethod
    def flat(loss: Loss, kink: float, prediction: Tensor, mu: float) -> Bent:
        """θ = 0, which no polar forbids, and r = a − b, with products of at least μ."""
        target = loss.plain.target.reshape(-1)
        best = loss.at_best(prediction.view(loss.target.shape)).reshape(-1)
        shift = (best - prediction)[: loss.target.shape[-1]] if loss.free else None
        weight = (loss.weight + torch.zeros_like(loss.target)).reshape(-1)
        bound, r = weight * kink, best - target
        return Bent(target, weight, bound, bound, r.clamp_min(0) + mu / bound, (-r).clamp_min(0) + mu / bound, shift)

    @property
    def value(self) -> Tensor:
        return (self.below - self.above) / 2

    def theta(self, loss: Loss, prediction: Tensor) -> Tensor:
        return self.value

    def curvature(self, loss: Loss, prediction: Tensor) -> Tensor:
        return 1 / (1 / self.weight + self.over / self.above + self.under / self.below)

    def products(self) -> Tensor:
        return torch.stack([self.over * self.above, self.under * self.below])

    def second(self, d: Any) -> Tensor:
        return torch.stack([d.over * d.above, d.under * d.below])

    def offset(self, loss: Loss, prediction: Tensor, change: Tensor) -> Tensor:
        return self._changed(loss, prediction, torch.zeros_like(prediction), change)[0]

    def _changed(self, loss: Loss, prediction: Tensor, dprediction: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
        """dΘ, and what the free intercept changes by so that Σθ = 0 after a full step."""
        push = change[0] / self.above - change[1] / self.below
        bent = self.curvature(loss, prediction)
        value = bent * dprediction + bent * (self._residual(prediction) - push)
        if self.shift is None:
            return value, value[:0]
        c = len(self.shift)
        dshift = -(self.value + value).view(-1, c).sum(0) / bent.view(-1, c).sum(0)
        return (value.view(-1, c) + bent.view(-1, c) * dshift).reshape(-1), dshift

    def _residual(self, prediction: Tensor) -> Tensor:
        if self.shift is not None:
            prediction = (prediction.view(-1, len(self.shift)) + self.shift).reshape(-1)
        return prediction - self.target - self.value / self.weight - self.over + self.under

    def direction(self, loss: Loss, prediction: Tensor, dprediction: Tensor, change: Tensor) -> Bent:
        value, dshift = self._changed(loss, prediction, dprediction, change)
        over = (change[0] + self.over * value) / self.above
        under = (change[1] - self.under * value) / self.below
        shift = None if self.shift is None else dshift
        return replace(self, above=-value, below=value, over=over, under=under, shift=shift)

    def fall(self, d: Slope) -> float:
        return max(float((-getattr(d, k) / getattr(self, k)).max()) for k in _POSITIVE)

    def moved(self, d: Slope, step: float) -> Bent:
        names = _POSITIVE if self.shift is None else (*_POSITIVE, "shift")
        return replace(self, **{k: getattr(self, k) + step * getattr(d, k) for k in names})

    def fitted(self, prediction: Tensor) -> Bent:
        missing = self._residual(prediction)
        return replace(self, over=self.over + missing.clamp_min(0), under=self.under + (-missing).clamp_min(0))


def first_slope(loss: Loss, prediction: Tensor, mu: float) -> Slope:
    return Smooth() if loss.kink is None else Bent.flat(loss, loss.kink, prediction, mu)
