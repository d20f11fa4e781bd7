"""The constant b (c,) that, added to all rows of a prediction (r, c), makes a loss least: one Newton a loss.

Where no b is best, because a class has no samples, its b is so far away that the loss of what is left of it is zero in
float64: `FAR` beyond the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

FAR = 750.0  # e^−FAR is zero
_STEPS = 200
_CLOSE = 1.0  # of the logarithms of what enters and leaves a class: from here on Newton is quick
_SWEEPS = 100
_GENTLE, _COOLER = 20.0, 4.0  # predictions of no larger spread are easy; by how much steps to larger ones are apart


def weighted_mean(residual: Tensor, weight: Tensor) -> Tensor:
    """Of rows (r, c); what rounding left is added once more."""
    total = weight.sum()
    mean = (weight * residual).sum(0) / total
    return mean + (weight * (residual - mean)).sum(0) / total


def close_centre(target: Tensor, weight: Tensor) -> Tensor:
    """The weighted mean of targets (n, …, c) where all of a column lie within a factor of two of it: then no
    difference rounds, and what is left is smaller.  Zero elsewhere, where nothing would be gained."""
    rows = target.reshape(-1, target.shape[-1])
    if not len(rows):
        return target.new_zeros(target.shape[-1])
    low, high = rows.amin(0), rows.amax(0)
    mean = weighted_mean(rows, weight.expand(*target.shape[:-1], 1).reshape(-1, 1))
    mean = torch.minimum(torch.maximum(mean, low), high)
    sizes = torch.minimum(low.abs(), high.abs()), torch.maximum(low.abs(), high.abs())
    close = (low * high > 0) & (sizes[1] <= 2 * mean.abs()) & (mean.abs() <= 2 * sizes[0])
    return torch.where(close, mean, 0.0)


def root(function: Callable[[Tensor], tuple[Tensor, Tensor]], low: Tensor, high: Tensor, start: Tensor) -> Tensor:
    """Where each of some increasing functions of one number is zero: Newton, or halves of what is left between the
    bounds (c,).  ``function`` gives values and slopes, both (c,)."""
    at = torch.minimum(torch.maximum(start, low), high)
    for _ in range(_STEPS):
        value, slope = function(at)
        low, high = torch.where(value < 0, at, low), torch.where(value > 0, at, high)
        newton = at - value / slope
        inside = (newton > low) & (newton < high)
        ahead = torch.where(value == 0, at, torch.where(inside, newton, low + (high - low) / 2))
        settled = (ahead - at).abs() <= 2e-16 * at.abs()
        at = ahead
        if bool(settled.all()):
            break
    return at


def logistic_shift(prediction: Tensor, target: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    """Where Σ_{y=0} wσ(ŷ + b) = Σ_{y=1} wσ(−ŷ − b), in logarithms, which are nearly straight lines in b."""
    positive = target > 0.5
    log_weight = weight.log().expand_as(target)
    zeros, ones = (log_weight.masked_fill(where, -torch.inf) for where in (positive, ~positive))
    masses = torch.logsumexp(zeros, 0) - torch.logsumexp(ones, 0)  # log of weights of zeros over those of ones
    highest, lowest = prediction.amax(0), prediction.amin(0)
    both = torch.isfinite(masses)
    if not bool(both.all()):
        only = torch.where(masses > 0, -FAR - highest, FAR - lowest)
        found = only.clone()
        if bool(both.any()):
            found[both] = logistic_shift(prediction[:, both], target[:, both], weight, start[both])
        return found

    def difference(b: Tensor) -> tuple[Tensor, Tensor]:
        z = prediction + b
        rising = zeros + torch.nn.functional.logsigmoid(z)
        falling = ones + torch.nn.functional.logsigmoid(-z)
        value = torch.logsumexp(rising, 0) - torch.logsumexp(falling, 0)
        slope = (torch.softmax(rising, 0) * torch.sigmoid(-z) + torch.softmax(falling, 0) * torch.sigmoid(z)).sum(0)
        return value, slope

    edge = masses.abs() + 2
    return root(difference, -highest - edge, -lowest + edge, start)


def huber_shift(residual: Tensor, weight: Tensor, delta: float, start: Tensor) -> Tensor:
    """Where Σ w·clamp(r + b, ±δ) = 0, for residuals r = Ŷ − Y."""

    def slope(b: Tensor) -> tuple[Tensor, Tensor]:
        r = residual + b
        return (weight * r.clamp(-delta, delta)).sum(0), (weight * (r.abs() <= delta)).sum(0)

    return root(slope, -residual.amax(0), -residual.amin(0), start)


def softmax_shift(prediction: Tensor, target: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    """Where every class gets as much probability as it has samples; of b's constants none matters: its mean is zero."""
    mass = (weight * target).sum(0)
    present = mass > 0
    if bool(present.all()):
        return _softmax_root(prediction, target, weight, start)
    few = prediction[:, present]
    b = torch.zeros_like(start)
    if few.shape[1] > 1:
        b[present] = _softmax_root(few, target[:, present], weight, start[present])
    least = torch.logsumexp(few + b[present], 1, keepdim=True)
    return torch.where(present, b, (least - prediction).amin(0) - FAR)


def _softmax_root(prediction: Tensor, target: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    """Newton; far from the best b on predictions that are scaled down first, as their softmax has no steps."""
    b = start
    if _At.of(prediction, target, weight, b).size > _CLOSE:
        spread = float((prediction.amax(0) - prediction.amin(0)).max())
        for k in range(math.ceil(math.log(max(spread / _GENTLE, 1.0), _COOLER)), 0, -1):
            b = _newton(prediction / _COOLER**k, target, weight, b / _COOLER**k) * _COOLER**k
    return _newton(prediction, target, weight, b)


def _newton(prediction: Tensor, target: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    """Newton's steps, shortened until the loss falls; far from the best b, or where flows are of very different sizes,
    Osborne's."""
    at = _At.of(prediction, target, weight, start)
    for _ in range(_STEPS):
        newton, least = at.newton(weight), 1e-15 * (1 + float(at.b.abs().max()))
        size = max(float(newton.abs().max()), 1e-300)
        shortened = (newton * 0.5**k for k in range(math.ceil(math.log2(max(size / least, 1.0)))))
        spread = (spreading(at) for spreading in [_osborne] * bool(at.size > 1e-14))
        for step in chain(spread, shortened) if at.size > _CLOSE else chain(shortened, spread):
            ahead = _At.of(prediction, target, weight, at.b + step)
            if ahead.better_than(at):
                at = ahead
                break
        else:
            break  # rounding has the last word
    return at.b


def _osborne(at: _At) -> Tensor:
    """Where predictions are far apart flows between classes are F_ac e^{b_c − b_a}: the b at which as much enters each
    class as leaves it, one class after the other (Osborne 1960)."""
    c = len(at.b)
    flow = np.full((c, c), -np.inf)
    for a in range(c):
        own = at.flows[at.label == a]
        if len(own):
            flow[a] = torch.logsumexp(own, 0).numpy()
    np.fill_diagonal(flow, -np.inf)
    total = np.zeros(c)
    for _ in range(_SWEEPS):
        largest = 0.0
        for k in range(c):
            entering, leaving = np.logaddexp.reduce(flow[:, k]), np.logaddexp.reduce(flow[k])
            if not (np.isfinite(entering) and np.isfinite(leaving)):
                continue
            move = (leaving - entering) / 2
            flow[:, k] += move
            flow[k] -= move
            total[k] += move
            largest = max(largest, abs(move))
        if largest <= 1e-15 * (1 + np.abs(total).max()):
            break
    return torch.from_numpy(total).to(at.b)


class _At(NamedTuple):
    """A b, the loss there, Σ_i w(p − y), and how far the logarithms of what enters and what leaves each class are
    apart: they are nearly straight lines in b where classes are far apart, and Newton would crawl."""

    b: Tensor
    value: float
    p: Tensor
    label: Tensor
    flows: Tensor  # log w p: of what leaves the label for every other class
    slope: Tensor
    logs: Tensor
    size: float

    @staticmethod
    def of(prediction: Tensor, target: Tensor, weight: Tensor, b: Tensor) -> _At:
        b = b - b.mean()
        log_p = torch.log_softmax(prediction + b, 1)
        p = log_p.exp()
        label = target == 1
        rest = torch.where(label, 0.0, p).sum(1, keepdim=True)  # 1 − p without cancellation
        log_p = torch.where(label & (rest < 0.5), torch.log1p(-rest.clamp_max(0.5)), log_p)
        slope = weight * torch.where(label, -rest, p - target)
        entering, leaving = slope.clamp_min(0).sum(0), -slope.clamp_max(0).sum(0)
        logs = entering.clamp_min(1e-300).log() - leaving.clamp_min(1e-300).log()
        value = -float((weight * target * log_p).sum())
        flows = weight.log() + torch.where(label, -torch.inf, log_p)
        return _At(b, value, p, target.argmax(1), flows, slope.sum(0), logs, float(logs.abs().max()))

    def better_than(self, other: _At) -> bool:
        """A lower loss; where rounding hides that, logarithms that are closer."""
        hidden = 1e-15 * abs(other.value)
        return self.value < other.value - hidden or (self.value <= other.value + hidden and self.size < other.size)

    def newton(self, weight: Tensor) -> Tensor:
        weighted = weight * self.p
        hessian = -(weighted.T @ self.p)
        hessian.diagonal().copy_(-(hessian.sum(1) - hessian.diagonal()))  # rows sum to zero, without cancellation
        scale = hessian.diagonal().mean().clamp_min(1e-300)
        step, failed = torch.linalg.solve_ex(hessian + scale / len(self.b), -self.slope)
        good = int(failed) == 0 and bool(torch.isfinite(step).all())
        return step if good else torch.zeros_like(self.b)
