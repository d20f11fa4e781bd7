"""The constant b (c,) that, added to all rows of a prediction (r, c), makes softmax's loss least.

At the best b every class gets as much probability as it has samples.  In other words: as much leaves each class, from
its samples to other classes, as enters it.  Newton finds b from a good guess; far from it, or where flows are of very
different sizes, Osborne's way of balancing a matrix does, and predictions that are scaled down first.
"""

from __future__ import annotations

import math
import sys
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg.lapack import dposv
from torch import Tensor

from provenet import deadline
from provenet.losses.quick import Array, Labels, Newton, Rows, newton_from
from provenet.losses.shift import FAR

_STEPS, _SWEEPS, _HALVINGS = 200, 100, 60
_AT_LEAST = 10  # steps that are taken even where there is no time: they are enough where predictions are moderate
_CLOSE = 1.0  # of the logarithms of what enters and leaves a class: from here on Newton is quick
_GENTLE, _COOLER = 20.0, 4.0  # a spread of predictions that is easy; the ratio of one spread to the next


def softmax_shift(prediction: Tensor, labels: Labels, start: Tensor) -> Tensor:
    """Of b's constants none matters: its mean is zero."""
    with np.errstate(all="ignore"):  # steps that go too far are not taken
        found = _quick(prediction, labels, start)
        if found is None:
            z, w, wanted, guess = (Rows.host(part) for part in (prediction, labels.weight, labels.wanted, start))
            data = _Data(z, (wanted / w).T, w[:, None])
            found = torch.from_numpy(_shift(data, guess)).to(prediction.device)
    return found.to(prediction.dtype)


class _Data(NamedTuple):
    """Where no step of Newton's leads from the guess to b: rows, as the host has them."""

    z: Array  # predictions (r, c)
    y: Array  # targets (r, c)
    w: Array  # weights (r, 1)


def _shift(data: _Data, start: Array) -> Array:
    z, y, w = data
    present = (w * y).sum(0) > 0
    if present.all():
        return _root(data, start)
    b, few = np.zeros_like(start), z[:, present]
    if present.sum() > 1:
        b[present] = _root(_Data(few, y[:, present], w), start[present])
    least = _log_sum(few + b[present])
    return np.where(present, b, (least - z).min(0) - FAR)


def _quick(prediction: Tensor, labels: Labels, start: Tensor) -> Tensor | None:
    """Newton from a good guess.  Classes are rows here: sums over few of them are many times quicker across long rows
    than along short ones."""
    rows, w, wanted, mass, total = labels
    odds = rows.seen((prediction + start).T.contiguous())
    odds -= rows.highest(odds)
    odds = rows.exp(odds)  # at the guess: a b that is δ away multiplies them by e^δ

    def newton(far: Array) -> Newton:
        more = np.exp(far)
        sums = rows.there(more) @ odds  # (r,)
        bent = -(more[:, None] * more) * rows.host((odds * (w / (sums * sums))) @ odds.T)
        share = -bent.sum(1)  # probabilities of a row sum to one
        slope = share - mass
        bent.flat[:: len(more) + 1] += share

        def wrong() -> float:
            return float(abs(rows.there(more)[:, None] * odds * (w / sums) - wanted).sum())

        return slope, _solved(bent, slope), wrong

    return newton_from(start, newton, total)


def _log_sum(z: Array) -> Array:
    """log Σ e^z of every row, (r, 1)."""
    top = z.max(1, keepdims=True)
    return np.asarray(top + np.log(np.exp(z - top).sum(1, keepdims=True)))


def _solved(hessian: Array, slope: Array) -> Array:
    """The step of mean zero; no numbers where there is none."""
    c = len(slope)
    bent = hessian + hessian.trace() / c**2  # along constants, too
    step, failed = dposv(bent, slope)[1:]
    return np.full_like(slope, np.nan) if failed else np.asarray(step - step.sum() / c)


def _root(data: _Data, start: Array) -> Array:
    """Far from the best b first on predictions that are scaled down, as their softmax has no steps."""
    b = start
    if _At.of(data, b).size > _CLOSE:
        spread = min(float(np.ptp(data.z, axis=0).max()), sys.float_info.max)
        for k in range(math.ceil(math.log(max(spread / _GENTLE, 1.0), _COOLER)), 0, -1):
            if deadline.over():
                break
            scale = _COOLER**k
            b = _nearer(data._replace(z=data.z / scale), b / scale) * scale
        return _nearer(data, b)
    return _descended(data, b)


def _nearer(data: _Data, start: Array) -> Array:
    """By Newton alone, if the start is good enough, which takes a fraction of the time."""
    z, y, w, guess = map(torch.from_numpy, (*data, start))
    found = _quick(z, Labels.of(y, w), guess)
    return _descended(data, start) if found is None else found.numpy()


def _descended(data: _Data, start: Array) -> Array:
    """Newton's steps, shortened until the loss falls, Osborne's, or proportional ones, which always descend.

    Any b is one that a network may have: one that a deadline leaves short of the best is a worse one, no wrong one."""
    at = _At.of(data, start)
    labels = bool(np.isin(data.y, (0, 1)).all())  # Osborne's flows are from one class each
    for k in range(_STEPS):
        if k >= _AT_LEAST and deadline.over():
            break
        newton, least = at.newton(data), 1e-15 * (1 + float(np.abs(at.b).max()))
        size = max(float(np.abs(newton).max()), least)
        halvings = min(math.ceil(math.log2(size) - math.log2(least)), _HALVINGS)
        shortened = (newton * 0.5**k for k in range(halvings))
        balanced = (at.osborne(data) for _ in range(labels and at.size > 1e-14))
        fitted = (at.proportional(data) for _ in range(at.size > 1e-14))
        for step in chain(balanced, fitted, shortened) if at.size > _CLOSE else chain(shortened, balanced, fitted):
            ahead = _At.of(data, at.b + step)
            if ahead.better_than(at):
                at = ahead
                break
        else:
            break  # rounding has the last word
    return at.b


class _At(NamedTuple):
    """A b, the loss there, probabilities, Σ w(p − y), and how far the logarithms of what enters each class and of what
    leaves it are apart, at most."""

    b: Array
    value: float
    p: Array
    log_p: Array
    slope: Array
    size: float

    @staticmethod
    def of(data: _Data, b: Array) -> _At:
        z, y, w = data
        b = b - b.mean()
        log_p = z + b
        log_p = log_p - _log_sum(log_p)
        p = np.exp(log_p)
        label = y == 1
        rest = np.where(label, 0.0, p).sum(1, keepdims=True)  # 1 − p without cancellation
        log_p = np.where(label & (rest < 0.5), np.log1p(-np.minimum(rest, 0.5)), log_p)
        slope = w * np.where(label, -rest, p - y)
        entering, leaving = np.maximum(slope, 0).sum(0), np.maximum(-slope, 0).sum(0)
        logs = np.log(np.maximum(entering, 1e-300)) - np.log(np.maximum(leaving, 1e-300))
        return _At(b, -float((w * y * log_p).sum()), p, log_p, slope.sum(0), float(np.abs(logs).max()))

    def better_than(self, other: _At) -> bool:
        """A lower loss; where rounding hides that, logarithms that are closer."""
        hidden = 1e-15 * abs(other.value)
        return self.value < other.value - hidden or (self.value <= other.value + hidden and self.size < other.size)

    def newton(self, data: _Data) -> Array:
        hessian = -((data.w * self.p).T @ self.p)
        np.fill_diagonal(hessian, 0.0)
        np.fill_diagonal(hessian, -hessian.sum(1))  # rows sum to zero, without cancellation
        step = _solved(hessian, -self.slope)
        return step if np.isfinite(step).all() else np.zeros_like(self.b)

    def proportional(self, data: _Data) -> Array:
        """Each class by the ratio of what it should get to what it gets (iterative proportional fitting)."""
        share = np.maximum((data.w * self.p).sum(0), 1e-300)
        return np.asarray(np.log((data.w * data.y).sum(0) / share))

    def osborne(self, data: _Data) -> Array:
        """Where predictions are far apart flows between classes are F_ac e^{b_c − b_a}: the b at which as much enters
        each class as leaves it, one class after the other (Osborne 1960)."""
        c, label = len(self.b), data.y.argmax(1)
        flow = np.full((c, c), -np.inf)  # logarithms
        rows = np.log(data.w) + self.log_p
        for a in range(c):
            if (label == a).any():
                flow[a] = np.logaddexp.reduce(rows[label == a], axis=0)
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
            if largest <= 1e-2 * (1 + np.abs(total).max()):
                break
        return total
