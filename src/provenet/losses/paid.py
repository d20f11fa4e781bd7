"""A loss with an intercept that pays as weights do: L̃(Ŷ) = min_b L(Ŷ + 1bᵀ) + κ/2 ‖b‖², one b (c,) for all rows.

What `torch.optim`'s weight decay on all parameters makes of the last layer's bias, with κ = β.  It is smooth where L
is, its Hessian H − H1(κI + 1ᵀH1)⁻¹1ᵀH; and its conjugate is L*(Θ) + ‖1ᵀΘ‖²/(2κ); no dual point need be balanced:

    L(AZ + 1bᵀ) + κ/2‖b‖² + βγ(Z) ≥ ⟨Θ, AZ⟩ + βγ(Z) − L*(Θ) + ⟨1ᵀΘ, b⟩ + κ/2‖b‖² ≥ −L*(Θ) − ‖1ᵀΘ‖²/(2κ).
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from provenet.losses.base import Shiftable
from provenet.losses.free import Free

_STEPS, _BACKTRACKS = 100, 40
_SETTLED = 1e-16  # of the sizes that a slope is the sum of
_FLATTER = 0.5


class Paid(Free):
    """``plain`` after the best constant b and what it costs, κ/2‖b‖² with κ = ``cost``; ``there`` as `Free` has it."""

    def __init__(self, plain: Shiftable, there: Tensor | None = None, cost: float = 1.0):
        super().__init__(plain, there)
        self.cost = cost
        self.quadratic, self.kink = False, None  # not of Ŷ alone: what b costs is in it

    def _centre(self, flat: Shiftable) -> Tensor:
        return torch.zeros_like(flat.centre())  # taken off for nothing it would not be paid

    def _shift(self, rows: Tensor, start: Tensor) -> Tensor:
        """Newton, by as much of each step as lowers the value, or, where that has no digits left, the slope."""
        b = start.clone()
        value, slope, size = self._value(rows, b), *self._slope(rows, b)
        for _ in range(_STEPS):
            if bool((slope.abs() <= _SETTLED * size).all()):
                break
            move = -self._inverse(rows + b) @ slope
            length = 1.0
            for _ in range(_BACKTRACKS):
                ahead = b + length * move
                there, steep = self._value(rows, ahead), self._slope(rows, ahead)
                if bool(there < value) or float(steep[0].abs().sum()) < _FLATTER * float(slope.abs().sum()):
                    break
                length /= 2
            else:
                break
            b, value, (slope, size) = ahead, there, steep
        return b

    def _slope(self, rows: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """By b (c,), and the sizes that it is the sum of."""
        slopes = self._flat.gradient(rows + b)
        return slopes.sum(0) + self.cost * b, slopes.abs().sum(0) + self.cost * b.abs()

    def _value(self, rows: Tensor, b: Tensor) -> Tensor:
        return self._flat.value(rows + b) + 0.5 * self.cost * b.square().sum()

    def value(self, prediction: Tensor) -> Tensor:
        return self._value(self._rows(prediction), self._best(prediction))

    def value_at(self, prediction: Tensor, intercept: Tensor | None) -> Tensor:
        return self._value(self._rows(prediction), self._zero if intercept is None else intercept)

    def dual_at(self, prediction: Tensor) -> Tensor:
        return self.gradient(prediction)

    def admissible(self, dual: Tensor) -> Tensor:
        return self._plain.admissible(dual)

    def conjugate(self, dual: Tensor) -> Tensor:
        """With ‖1ᵀΘ‖ as large as rounding of the sums allows: where κ is tiny, that is much."""
        pieces = self._flat.pieces(self._rows(dual))
        total, sizes, count = self.shards.add(_sums(part) for part in pieces)
        hidden = (count + 2) * torch.finfo(dual.dtype).eps * sizes
        return self._plain.conjugate(dual) + (total.abs() + hidden).square().sum() / (2 * self.cost)

    def dual_scale(self, dual: Tensor, largest: float) -> float:
        """The best τ by golden section: −L̃*(τΘ) is concave."""
        most = max(self._plain.dual_scale(dual, largest), min(1.0, largest))
        tried = [0.0, min(1.0, most), most]
        if most > 0 and math.isfinite(float(self.conjugate(most * dual))):
            found = minimize_scalar(lambda tau: float(self.conjugate(tau * dual)), bounds=(0.0, most), method="bounded")
            tried.append(float(found.x))
        return min(tried, key=lambda tau: float(self.conjugate(tau * dual)))

    def _again(self, plain: Shiftable, there: Tensor | None) -> Paid:
        return Paid(plain, there, self.cost)

    def divided(self, weight: float) -> Paid:
        plain = self._given.with_data(self.target, self.sample_weight / weight)
        return Paid(plain, self.there, self.cost / weight)

    def dearer(self, ratio: float) -> Paid:
        return Paid(self._given, self.there, self.cost * ratio)


def _sums(rows: Tensor) -> Tensor:
    """Σ rows, Σ |rows| and how many there are, (3, c)."""
    total = rows.sum(0)
    return torch.stack([total, rows.abs().sum(0), torch.full_like(total, len(rows))])
