"""Softmax cross-entropy Σ_i w_i (log Σ_c e^{ŷ_ic} − ⟨y_i, ŷ_i⟩), y_i one-hot or any point of the simplex."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.losses.base import Loss, damped


class Softmax(Loss):
    name = "softmax"
    curvature = 0.5  # the Hessian diag(p) − ppᵀ has norm at most ½

    def __init__(self, target: Tensor, weight: Tensor | None = None):
        super().__init__(target, weight)
        self._one_hot = bool(((target == 0) | (target == 1)).all())

    def value(self, prediction: Tensor) -> Tensor:
        return -(self.weight * self.target * torch.log_softmax(prediction, dim=-1)).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        p = torch.softmax(prediction, dim=-1)
        if not self._one_hot:
            return self.weight * (p - self.target)
        others = p * (1 - self.target)  # p_y − 1 = −Σ others: no cancellation where the fit is good
        return self.weight * (others - self.target * others.sum(-1, keepdim=True))

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        p = torch.softmax(prediction, dim=-1)
        weighted = p * direction
        return self.weight * (weighted - p * weighted.sum(-1, keepdim=True))

    def conjugate(self, dual: Tensor) -> Tensor:
        # p = θ + y on the simplex; Σ p log p
        p = dual / self.weight + self.target
        slack = 32 * torch.finfo(dual.dtype).eps
        off_simplex = (p.sum(-1) - 1).abs().max() > slack * p.shape[-1] or p.min() < -slack
        if bool(off_simplex):
            return dual.new_tensor(float("inf"))
        p = p.clamp_min(0)
        entropy = torch.xlogy(p, p)
        if self._one_hot:  # near p = 1, from θ itself
            near_one = (self.target == 1) & (p > 0.5)
            entropy = torch.where(near_one, p * torch.log1p(dual / self.weight), entropy)
        return (self.weight * entropy).sum()

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        pull = self.weight * step
        y = point.clone()
        for _ in range(200):
            p = torch.softmax(y, dim=-1)
            slope = (y - point) + pull * (p - self.target)
            # (diag(1 + pull·p) − pull·ppᵀ)⁻¹ slope by Sherman–Morrison; Σp = 1 keeps the denominator positive
            diagonal = 1 + pull * p
            towards = p / diagonal
            newton = slope / diagonal
            newton = newton + towards * (pull * (p * newton).sum(-1, keepdim=True) / towards.sum(-1, keepdim=True))
            spread = newton.amax(-1, keepdim=True) - newton.amin(-1, keepdim=True)
            y -= damped(spread) * newton
            if bool((newton.abs() <= 1e-14 * (1 + y.abs())).all()):
                break
        return y

    def with_data(self, target: Tensor, weight: Tensor | None) -> Softmax:
        return Softmax(target, weight)
