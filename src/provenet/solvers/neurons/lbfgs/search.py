"""A step along a direction that meets Wolfe's conditions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from provenet import deadline
from provenet.problem import Program
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, Spot, evaluated
from provenet.solvers.neurons.place import shifted
from provenet.space import read

_DECREASE = 1e-4  # of what the slope promises
_FLATTER = 0.9  # of the slope: steeper, and the step was too short
_TRIALS = 20
_NOISE = 0.5  # of the precision's eps, times the objective: what sums may be wrong by


def wolfe_step(program: Program, here: Coordinates, at: Spot, direction: Tensor) -> Spot | None:
    """A spot along the direction with a smaller objective, and, unless trials or time run out, a flatter slope.

    Two numbers are read a trial, and one of a trial that is taken: what is decided here is decided by the host."""
    promised = (at.gradient * direction).sum(dtype=torch.float64)
    noise = _NOISE * torch.finfo(here.dtype).eps * abs(at.value)
    best: Spot | None = None
    low, high, length = 0.0, math.inf, 1.0
    for _ in range(_TRIALS):
        unread, onwards = evaluated(program, here, shifted(at.factors, length * direction))
        value, slope = read(unread, promised)
        if not slope < 0:
            return None
        if value <= at.value + _DECREASE * length * slope + noise:
            there = onwards(value)
            if best is None or there.value <= best.value:
                best = there
            (left,) = read((there.gradient * direction).sum(dtype=torch.float64))
            if left >= _FLATTER * slope:
                return there
            low = length
            length = 2 * length if high == math.inf else 0.5 * (low + high)
        else:
            high = length
            length = _shorter(at.value, slope, value, low, high)
        if deadline.over() or high - low <= 1e-10 * high:
            break
    return best


def _shorter(start: float, slope: float, value: float, low: float, high: float) -> float:
    """The minimum of the parabola through start, its slope, and the value at ``high``, well inside (low, high)."""
    excess = value - start - slope * high
    guess = -0.5 * slope * high * high / excess if 0 < excess < math.inf else 0.0
    width = high - low
    return min(max(guess, low + 0.1 * width), low + 0.5 * width)
