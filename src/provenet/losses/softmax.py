"""Softmax cross-entropy Σ_i w_i (log Σ_c e^{ŷ_ic} − ⟨y_i, ŷ_i⟩), y_i one-hot or any point of the simplex."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus
from typing_extensions import Self

from provenet.losses.balance import balanced_flows, balanced_mixtures
from provenet.losses.base import Shiftable
from provenet.losses.conjugate import Conjugate
from provenet.losses.quick import Array, Labels
from provenet.losses.softmax_shift import softmax_shift
from provenet.ranks import Whole

_SHORT = 64  # entries of a row


class Softmax(Shiftable):
    name = "softmax"
    curvature = 0.5  # the Hessian diag(p) − ppᵀ has norm at most ½

    def __init__(self, target: Tensor, weight: Tensor | None = None):
        super().__init__(target, weight)
        self._one_hot = bool(((target == 0) | (target == 1)).all())
        self._top = torch.zeros_like(target, dtype=torch.bool).scatter_(-1, target.argmax(-1, keepdim=True), True)
        self._rest = target.masked_fill(self._top, 0.0)  # the others of each row; its top entry is what they leave of 1

    def value(self, prediction: Tensor) -> Tensor:
        # −log p_y = log(1 + Σ_{c≠y} e^{ŷ_c − ŷ_y}): a loss far below eps keeps its digits
        others = torch.logsumexp(prediction.masked_fill(self._top, float("-inf")), dim=-1, keepdim=True)
        margin = prediction.masked_fill(~self._top, 0.0).sum(-1, keepdim=True)
        top = softplus(others - margin, threshold=100.0)
        if self._one_hot:
            return (self.weight * top).sum()
        share = 1 - self._rest.sum(-1, keepdim=True)
        rest = (self._rest * torch.log_softmax(prediction, dim=-1)).sum(-1, keepdim=True)
        return (self.weight * (share * top - rest)).sum()

    def gradient(self, prediction: Tensor) -> Tensor:
        p = _probabilities(prediction)
        return self.weight * self._closed(p - self._rest)

    def _closed(self, slope: Tensor) -> Tensor:
        """Rows that sum to zero: the top entry from the others, p_y − y = −Σ(p_c − y_c), without cancellation."""
        others = slope.masked_fill(self._top, 0.0)
        return torch.where(self._top, -others.sum(-1, keepdim=True), others)

    def in_columns(self, prediction: Array, intercept: Array | None) -> tuple[float, Array]:
        y, w = self._columns
        z = prediction if intercept is None else prediction + intercept[:, None]
        z = z - z.max(0)
        p = np.exp(z)
        total = p.sum(0)
        value = float(w @ np.log(total)) - float(np.vdot(w * y, z))
        p /= total
        p -= y
        p *= w
        return value, p

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        p = _probabilities(prediction)
        weighted = (self.weight * p) * direction
        total = weighted @ torch.ones_like(p[..., :1, :]).transpose(
            -1, -2
        )  # of short rows: many times quicker than a sum
        return torch.addcmul(weighted, p, total, value=-1)

    def local_curvature(self, prediction: Tensor) -> Tensor:
        p = _probabilities(prediction)
        mean_eigenvalue = (1 - p.square().sum(-1)) / max(p.shape[-1] - 1, 1)
        return self._clipped_curvature(mean_eigenvalue)

    def conjugate(self, dual: Tensor) -> Tensor:
        # p = θ + y on the simplex; Σ p log p
        theta = dual / self.weight
        p = theta + self.target
        slack = 32 * torch.finfo(dual.dtype).eps
        off_simplex = (p.sum(-1) - 1).abs().max() > slack * p.shape[-1] or (p < -slack * self.target).any()
        if bool(off_simplex):
            return dual.new_tensor(float("inf"))
        p = p.clamp_min(0)
        left = theta - self._rest.sum(-1, keepdim=True)  # of the top entry: p − 1, from θ itself
        near_one = self._top & (p > 0.5)
        return (self.weight * torch.where(near_one, p * torch.log1p(left), torch.xlogy(p, p))).sum()

    def admissible(self, dual: Tensor) -> Tensor:
        # the conjugate is lenient by some eps, which may be all there is of Θ where β is as small
        return self._closed(torch.maximum(dual, -self.weight * self._rest))

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
            omega = _wright_omega(shifted - mu)
            move = (omega.sum(-1, keepdim=True) - pull) / (omega / (1 + omega)).sum(-1, keepdim=True)
            mu = mu + move
            if bool((move.abs() <= 4e-15 * (1 + mu.abs() + pull)).all()):
                break
        return a - _wright_omega(shifted - mu)

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        return softmax_shift(prediction, self._labels, start)

    @cached_property
    def _labels(self) -> Labels:
        return Labels.of(self.target, self.weight)

    def across(self, prediction: Tensor) -> Tensor:
        p = _probabilities(prediction)
        weighted = self.weight * p
        return torch.diag(weighted.sum(0)) - weighted.T @ p

    def balanced_together(self, parts: Sequence[Self], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        targets = [part.target for part in parts]
        if shards.largest(float(not all(part._one_hot for part in parts))):
            return balanced_mixtures(duals, targets, [part.weight for part in parts], shards)
        return balanced_flows(duals, targets, shards)

    def smooth_conjugate(self) -> Conjugate:
        return _Entropy(self)


def _probabilities(prediction: Tensor) -> Tensor:
    """softmax(ŷ), row by row.  Of short rows `torch.softmax` takes four times as long."""
    if prediction.shape[-1] > _SHORT:
        return torch.softmax(prediction, dim=-1)
    odds = (prediction - prediction.amax(-1, keepdim=True)).exp()
    return odds / (odds @ odds.new_ones(odds.shape[-1], 1))


class _Entropy(Conjugate):
    """Of probabilities, which it keeps positive."""

    def inside(self, theta: Tensor) -> bool:
        return float(self._shifted(theta).min()) > 0

    def slope(self, theta: Tensor, mu: float) -> Tensor:
        return self._shifted(theta).log()


def _wright_omega(z: Tensor) -> Tensor:
    """The ω > 0 with ω + log ω = z, to machine precision (two steps of Fritsch, Shafer and Crowley, 1973)."""
    guess = torch.where(z > 1, z - z.clamp_min(1).log(), (z.clamp_max(1)).exp().mul(0.57))
    guess = torch.where(z < -2, z.clamp_max(-2).exp(), guess)
    omega = guess.clamp_min(torch.finfo(z.dtype).tiny)
    for _ in range(2):
        r = z - omega - omega.log()
        t = 1 + omega
        s = t * (t + r * (2 / 3))
        omega = (omega * (1 + (r / t) * (s - r / 2) / (s - r))).clamp_min(torch.finfo(z.dtype).tiny)
    return omega
