"""Σ w·h(ŷ − y), h quadratic within ±δ and linear beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.losses.balance import balanced_boxes
from provenet.losses.base import Shiftable
from provenet.losses.conjugate import Conjugate
from provenet.losses.shift import close_centre, huber_shift
from provenet.ranks import Whole
from provenet.vectors import power_of_four


class Huber(Shiftable):
    name = "huber"
    measures = "median"
    curvature = 1.0

    def __init__(self, target: Tensor, weight: Tensor | None = None, delta: float = 1.0):
        super().__init__(target, weight)
        if not (delta > 0 and delta < float("inf")):
            raise ValueError(f"huber: delta must be a positive number, got {delta!r}.")
        self.delta = self.kink = float(delta)

    def settings(self) -> dict[str, Any]:
        return {"delta": self.delta}

    def value(self, prediction: Tensor) -> Tensor:
        r = (prediction - self.target).abs()
        inside = r.clamp_max(self.delta)
        return (self.weight * (0.5 * inside.square() + self.delta * (r - inside))).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        return self.weight * (prediction - self.target).clamp(-self.delta, self.delta)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        inside = (prediction - self.target).abs() <= self.delta
        return self.weight * inside * direction

    def local_curvature(self, prediction: Tensor) -> Tensor:
        # beyond δ the slope turns by 2δ over 2|r|
        return self._clipped_curvature(self.delta / (prediction - self.target).abs().clamp_min(self.delta))

    def conjugate(self, dual: Tensor) -> Tensor:
        theta = dual / self.weight
        slack = 8 * torch.finfo(dual.dtype).eps * self.delta
        if bool((theta.abs() > self.delta + slack).any()):
            return dual.new_tensor(float("inf"))
        return (self.weight * (0.5 * theta.square() + theta * self.target)).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        pull = self.weight * step
        r = point - self.target
        return point - pull * (r / (1 + pull)).clamp(-self.delta, self.delta)

    def centre(self) -> Tensor:
        return close_centre([self], self.shards)

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        return huber_shift(prediction - self.target, self.weight, self.delta, start)

    def balanced_together(self, parts: Sequence[Self], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        edges = [part.weight * part.delta for part in parts]
        inside = [torch.minimum(torch.maximum(dual, -edge), edge) for dual, edge in zip(duals, edges, strict=True)]
        return balanced_boxes(inside, shards)

    def smooth_conjugate(self) -> Conjugate:
        return _Walled(self)

    def unit(self, largest: float) -> float:
        # below δ the loss is the squared one, far above it is linear: δ is the scale that must stay representable
        return power_of_four(largest)

    def scaled(self, scale: float) -> Huber:
        return Huber(self.target / scale, self.sample_weight, self.delta / scale)

    def with_data(self, target: Tensor, weight: Tensor | None) -> Huber:
        return Huber(target, weight, self.delta)


class _Walled(Conjugate[Huber]):
    """|Θ| ≤ wδ, kept by a barrier."""

    def _room(self, theta: Tensor) -> tuple[Tensor, Tensor]:
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
        return self._shifted(theta) + mu * (1 / above - 1 / below)

    def flat(self, theta: Tensor, mu: float, direction: Tensor) -> Tensor:
        above, below = self._room(theta)
        return direction / (1 / self.loss.weight + mu * (above.square().reciprocal() + below.square().reciprocal()))
