"""Σ w·(log(1 + e^ŷ) − y·ŷ) with y in {0, 1}, entry by entry: binary, or one against the rest, or many labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus
from typing_extensions import Self

from provenet.losses.balance import balanced_boxes
from provenet.losses.base import Shiftable
from provenet.losses.conjugate import Conjugate
from provenet.losses.quick import Array, Labels
from provenet.losses.shift import logistic_root, logistic_shift
from provenet.ranks import Whole


class Logistic(Shiftable):
    name = "logistic"
    curvature = 0.25

    def value(self, prediction: Tensor) -> Tensor:
        # log(1 + e^ŷ) − yŷ = y·log(1 + e^−ŷ) + (1 − y)·log(1 + e^ŷ), without cancellation
        y = self.target
        return (self.weight * (y * _softplus(-prediction) + (1 - y) * _softplus(prediction))).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        # (1 − y)σ(ŷ) − yσ(−ŷ): small differences keep their digits
        y = self.target
        return self.weight * ((1 - y) * torch.sigmoid(prediction) - y * torch.sigmoid(-prediction))

    def in_columns(self, prediction: Array, intercept: Array | None) -> tuple[float, Array]:
        y, w = self._columns
        z = prediction if intercept is None else prediction + intercept[:, None]
        small = np.exp(-np.abs(z))
        value = float((w * (np.maximum(z, 0.0) - y * z + np.log1p(small))).sum())
        return value, w * (np.where(z > 0, 1.0, small) / (1 + small) - y)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        return self.weight * torch.sigmoid(prediction) * torch.sigmoid(-prediction) * direction

    def local_curvature(self, prediction: Tensor) -> Tensor:
        return self._clipped_curvature(torch.sigmoid(prediction) * torch.sigmoid(-prediction))

    def conjugate(self, dual: Tensor) -> Tensor:
        # s = |p − y| in [0, 1], p = θ + y:  s log s + (1 − s) log(1 − s), from θ itself: tiny θ keep their digits
        theta = dual / self.weight
        s = torch.where(self.target > 0.5, -theta, theta)
        if bool(((s < 0) | (s > 1)).any()):
            return dual.new_tensor(float("inf"))
        return (self.weight * (torch.xlogy(s, s) + torch.special.xlog1py(1 - s, -s))).sum()

    def admissible(self, dual: Tensor) -> Tensor:
        return torch.where(self.target > 0.5, dual.clamp_max(0), dual.clamp_min(0))

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        # y + S·σ(y) = a grows in y, convex left of 0 and concave right of it, so Newton that starts between 0 and the
        # root never overshoots; and the root lies in [a − S, a]
        pull = self.weight * step
        a = point + pull * self.target
        y = torch.where(a > 0.5 * pull, (a - pull).clamp_min(0), a.clamp_max(0))
        for _ in range(200):
            move = (a - y - pull * torch.sigmoid(y)) / (1 + pull * torch.sigmoid(y) * torch.sigmoid(-y))
            y = y + move
            if bool((move.abs() <= 4e-16 * (1 + pull + y.abs())).all()):
                break
        return y

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        found = logistic_shift(prediction, self._labels, start)
        return logistic_root(prediction, self.target, self.weight, start) if found is None else found

    @cached_property
    def _labels(self) -> Labels:
        return Labels.of(self.target, self.weight)

    def balanced_together(self, parts: Sequence[Self], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        return balanced_boxes([part.admissible(dual) for part, dual in zip(parts, duals, strict=True)], shards)

    def smooth_conjugate(self) -> Conjugate:
        return _BinaryEntropy(self)


def _softplus(x: Tensor) -> Tensor:
    return softplus(x, threshold=100.0)


class _BinaryEntropy(Conjugate):
    """Of probabilities, which it keeps between zero and one."""

    def inside(self, theta: Tensor) -> bool:
        chances = self._shifted(theta)
        return float(chances.min()) > 0 and float(chances.max()) < 1

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return torch.logit(self._shifted(theta))
