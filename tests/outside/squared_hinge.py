"""A loss of a user's: Σ w ½ max(0, 1 − y ŷ)² with y in {−1, 1}, entry by entry."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.losses import Loss


class SquaredHinge(Loss):
    name = "squared_hinge"
    curvature = 1.0

    def __init__(self, target: Tensor, weight: Tensor | None = None):
        super().__init__(target, weight)
        if not bool((target.abs() == 1).all()):
            raise ValueError("Y: targets of the squared hinge are 1 and −1.")

    def _short(self, prediction: Tensor) -> Tensor:
        """By how much a margin of one is missed."""
        return (1 - self.target * prediction).clamp_min(0)

    def value(self, prediction: Tensor) -> Tensor:
        return (self.weight * self._short(prediction).square()).sum() / 2

    def gradient(self, prediction: Tensor) -> Tensor:
        return -self.weight * self.target * self._short(prediction)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        return self.weight * (self._short(prediction) > 0) * direction

    def conjugate(self, dual: Tensor) -> Tensor:
        slope = dual * self.target / self.weight  # ℓ*(s) = s + s²/2 for s ≤ 0: of a margin, which nothing pulls down
        if bool((slope > 0).any()):
            return dual.new_tensor(float("inf"))
        return (self.weight * (slope + slope.square() / 2)).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        pull = self.weight * step
        return point + self.target * self._short(point) * (pull / (1 + pull))

    def dual_scale(self, dual: Tensor, largest: float) -> float:
        """The best of all: −L*(τΘ) is a parabola in τ."""
        slope = dual * self.target / self.weight
        bend = float((self.weight * slope.square()).sum())
        return min(max(-float((self.weight * slope).sum()) / bend, 0.0), largest) if bend > 0 else min(1.0, largest)

    def local_curvature(self, prediction: Tensor) -> Tensor:
        return self._clipped_curvature((self._short(prediction) > 0).to(torch.float64))
