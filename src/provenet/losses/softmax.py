"""Softmax cross-entropy Σ_i w_i (log Σ_c e^{ŷ_ic} − ⟨y_i, ŷ_i⟩), y_i one-hot or any point of the simplex."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from provenet.losses.balance import balanced_flows, balanced_mixtures
from provenet.losses.base import Loss, wright_omega
from provenet.losses.conjugate import Conjugate
from provenet.losses.softmax_shift import softmax_shift


class Softmax(Loss):
    name = "softmax"
    curvature = 0.5  # the Hessian diag(p) − ppᵀ has norm at most ½

    def __init__(self, target: Tensor, weight: Tensor | None = None):
        super().__init__(target, weight)
        self._one_hot = bool(((target == 0) | (target == 1)).all())

    def value(self, prediction: Tensor) -> Tensor:
        if not self._one_hot:
            return -(self.weight * self.target * torch.log_softmax(prediction, dim=-1)).sum()
        # log(1 + Σ_{c≠y} e^{ŷ_c − ŷ_y}): a loss far below eps keeps its digits
        others = torch.logsumexp(prediction.masked_fill(self.target == 1, float("-inf")), dim=-1, keepdim=True)
        margin = (self.target * prediction).sum(-1, keepdim=True)
        return (self.weight * softplus(others - margin, threshold=100.0)).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        p = torch.softmax(prediction, dim=-1)
        if not self._one_hot:
            slope = p - self.target
            return self.weight * (slope - slope.mean(-1, keepdim=True))  # rows sum to zero, but for their own rounding
        others = p * (1 - self.target)  # p_y − 1 = −Σ others: no cancellation where the fit is good
        return self.weight * (others - self.target * others.sum(-1, keepdim=True))

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        p = torch.softmax(prediction, dim=-1)
        weighted = p * direction
        return self.weight * (weighted - p * weighted.sum(-1, keepdim=True))

    def local_curvature(self, prediction: Tensor) -> Tensor:
        p = torch.softmax(prediction, dim=-1)
        mean_eigenvalue = (1 - p.square().sum(-1)) / max(p.shape[-1] - 1, 1)
        return self._clipped_curvature(mean_eigenvalue)

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

    def admissible(self, dual: Tensor) -> Tensor:
        # the conjugate is lenient by some eps, which may be all there is of Θ where β is as small
        if not self._one_hot:
            return dual - dual.mean(-1, keepdim=True)
        others = dual.clamp_min(0) * (1 - self.target)
        return others - self.target * others.sum(-1, keepdim=True)

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        # y + S·p(y) = a with S = w·step, a = point + S·target.  With μ = log Σ e^y each entry solves
        # ω + log ω = a − μ + log S for ω = S·p (Wright's omega), and Σω = S fixes μ: one convex, decreasing equation a
        # row, on which Newton from the left never overshoots.
        pull = (self.weight * step).expand_as(self.weight)
        a = point + pull * self.target
        shifted = a + pull.log()
        # two lower bounds of μ: Σp = 1 caps each S·p by S; and ω is convex (Jensen)
        share = pull / a.shape[-1]
        equal = shifted.mean(-1, keepdim=True) - share - share.log()
        mu = torch.maximum(torch.logsumexp(a, -1, keepdim=True) - pull, equal)
        for _ in range(100):
            omega = wright_omega(shifted - mu)
            move = (omega.sum(-1, keepdim=True) - pull) / (omega / (1 + omega)).sum(-1, keepdim=True)
            mu = mu + move
            if bool((move.abs() <= 4e-15 * (1 + mu.abs() + pull)).all()):
                break
        return a - wright_omega(shifted - mu)

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        return softmax_shift(prediction, self.target, self.weight, start)

    def balanced(self, dual: Tensor) -> Tensor:
        if self._one_hot:
            return balanced_flows(dual, self.target)
        return balanced_mixtures(dual, self.target, self.weight)

    def smooth_conjugate(self) -> Conjugate:
        return _Entropy(self)


class _Entropy(Conjugate):
    """Of probabilities, which it keeps positive."""

    def inside(self, theta: Tensor) -> bool:
        return float(self._shifted(theta).min()) > 0

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return self._shifted(theta).log()
