"""½ Σ_i w_i ‖Ŷ_i − Y_i‖²."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.losses.balance import balanced_boxes
from provenet.losses.base import Shiftable
from provenet.losses.conjugate import Conjugate
from provenet.losses.shift import close_centre, weighted_mean
from provenet.ranks import Whole
from provenet.vectors import power_of_four


class Squared(Shiftable):
    name = "squared"
    measures = "mean"
    quadratic = True
    curvature = 1.0

    def value(self, prediction: Tensor) -> Tensor:
        return 0.5 * (self.weight * (prediction - self.target).square()).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        return self.weight * (prediction - self.target)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        return self.weight * direction

    def conjugate(self, dual: Tensor) -> Tensor:
        return (0.5 * dual.square() / self.weight + dual * self.target).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        pull = self.weight * step
        return (point + pull * self.target) / (1 + pull)

    def dual_sums(self, dual: Tensor) -> Tensor:
        return torch.stack([(dual.square() / self.weight).sum(), (dual * self.target).sum()])

    def scale_by(self, sums: Tensor, largest: float) -> float:
        # −L*(τΘ) is a parabola in τ
        curvature, slope = sums.tolist()
        return 0.0 if curvature == 0 else min(max(-slope / curvature, 0.0), largest)

    def centre(self) -> Tensor:
        return close_centre([self], self.shards)

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        return weighted_mean(self.target - prediction, self.weight)

    def balanced_together(self, parts: Sequence[Self], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        weights = [part.weight.expand(*dual.shape[:-1], 1) for part, dual in zip(parts, duals, strict=True)]
        off = shards.add(dual.flatten(0, -2).sum(0) for dual in duals) / shards.add(w.sum() for w in weights)
        return balanced_boxes([dual - w * off for dual, w in zip(duals, weights, strict=True)], shards)

    def smooth_conjugate(self) -> Conjugate:
        return _OfSquared(self)

    def unit(self, largest: float) -> float:
        return power_of_four(largest)


class _OfSquared(Conjugate):
    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return self._shifted(theta)
