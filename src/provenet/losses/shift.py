"""The constant b (c,) that, added to all rows of a prediction (r, c), makes a loss least; softmax has its own file.

Where no b is best, because a class has no samples, its b is so far away that the loss of what is left of it is zero in
float64: `FAR` beyond the predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from provenet.losses.quick import Array, Labels, Newton, newton_from
from provenet.ranks import Whole

if TYPE_CHECKING:
    from provenet.losses.base import Loss

FAR = 750.0  # e^−FAR is zero
_STEPS = 200


def weighted_mean(residual: Tensor, weight: Tensor) -> Tensor:
    """Of rows (r, c); what rounding left is added once more."""
    total = weight.sum()
    mean = (weight * residual).sum(0) / total
    return mean + (weight * (residual - mean)).sum(0) / total


def close_centre(parts: Sequence[Loss], shards: Whole) -> Tensor:
    """The weighted mean of targets (n, …, c) where all of a column lie within a factor of two of it: then no
    difference rounds, and what is left is smaller.  Zero elsewhere, where nothing would be gained."""
    rows = [part.target.reshape(-1, part.target.shape[-1]) for part in parts]
    if not sum(map(len, rows)):
        return rows[0].new_zeros(rows[0].shape[-1])
    weights = [part.weight.expand(*part.target.shape[:-1], 1).reshape(-1, 1) for part in parts]
    low, high = -shards.highest(torch.cat([-r for r in rows]).amax(0)), shards.highest(torch.cat(rows).amax(0))
    total = shards.add(w.sum() for w in weights)
    mean = low.new_zeros(len(low))
    for _ in range(2):  # what rounding left is added once more
        off = shards.add((w * (r - mean)).sum(0) for r, w in zip(rows, weights, strict=True))
        mean = mean + off / total
    mean = torch.minimum(torch.maximum(mean, low), high)
    sizes = torch.minimum(low.abs(), high.abs()), torch.maximum(low.abs(), high.abs())
    close = (low * high > 0) & (sizes[1] <= 2 * mean.abs()) & (mean.abs() <= 2 * sizes[0])
    return torch.where(close, mean, 0.0)


def root(function: Callable[[Tensor], tuple[Tensor, Tensor]], low: Tensor, high: Tensor, start: Tensor) -> Tensor:
    """Where each of some increasing functions of one number is zero: Newton, or halves of what is left between the
    bounds (c,).  ``function`` gives values and slopes, both (c,)."""
    at = torch.minimum(torch.maximum(start, low), high)
    hair = 1e-16 * (high - low)
    for _ in range(_STEPS):
        value, slope = function(at)
        low, high = torch.where(value < 0, at, low), torch.where(value > 0, at, high)
        newton = at - value / slope
        settled = (value == 0) | ((newton - at).abs() <= hair + 2e-16 * at.abs())
        inside = (newton > low) & (newton < high)
        ahead = torch.where(settled, at, torch.where(inside, newton, low + (high - low) / 2))
        settled |= (ahead - at).abs() <= hair + 2e-16 * at.abs()
        at = ahead
        if bool(settled.all()):
            break
    return at


def logistic_shift(prediction: Tensor, labels: Labels, start: Tensor) -> Tensor | None:
    """Where Σ_{y=0} wσ(ŷ + b) = Σ_{y=1} wσ(−ŷ − b), from a good guess; None where it is none."""
    rows, w, wanted, mass, total = labels
    z = rows.seen((prediction + start).T.contiguous())

    def newton(far: Array) -> Newton:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            p = 1 / (1 + rows.exp(-(z + rows.there(far)[:, None])))
            weighted = w * p
            share, bent = rows.together(weighted.sum(1), (weighted * (1 - p)).sum(1))
            slope = share - mass
            return slope, slope / bent, lambda: float(abs(weighted - wanted).sum(1).min()) * len(mass)  # of each enough

    return newton_from(start, newton, total * len(mass))


def logistic_root(prediction: Tensor, target: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    """In logarithms, which are nearly straight lines in b."""
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
            found[both] = logistic_root(prediction[:, both], target[:, both], weight, start[both])
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
