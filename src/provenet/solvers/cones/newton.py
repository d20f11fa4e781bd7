"""Newton on the faces of the cones: a step is free along the walls that hold a neuron back, and stops at others.

The quadratic model of the objective (`neurons.hessian`) is minimised with the walls that bend the steepest descent as
equations.  Where that leaves a cone, the walls in the way become equations too, and the model is minimised again: few
rounds of an active-set method, each ended by a projection on the cones, so that every candidate is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import Region
from provenet.problem import Program
from provenet.solvers.cones.faces import Walls, descent, feasible, walls_of
from provenet.solvers.neurons.hessian import Model
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import Place, gradient, place
from provenet.variable import Factors

_ROUNDS = 5  # of adding walls
_TRIES = 6  # dampings
_STILL = 1e-11  # a steepest descent below this part of β·‖weights‖ is zero
_FLAT = 1e-14  # a promised decrease below this part of the objective drowns in rounding
_BACKTRACKS = 40


@dataclass(frozen=True)
class FaceMove:
    """Where a step led.  damping: in units of β.  ``stuck``: nowhere."""

    place: Place
    damping: float
    stuck: bool = False


def face_step(program: Program, region: Region, at: Place, damping: float, settings: NewtonSettings) -> FaceMove:
    slope = gradient(program, at)
    steepest, walls = descent(region, at.factors, slope)
    weights = torch.cat([at.factors.left, at.factors.right], dim=1)
    if float(torch.linalg.vector_norm(steepest)) <= _STILL * program.beta * float(torch.linalg.vector_norm(weights)):
        return FaceMove(at, damping, stuck=True)
    tried, model = damping, settings.model(program, at)
    for attempt in range(_TRIES):
        if deadline.over():
            return FaceMove(at, damping)
        for coupled in (True, False):
            found = _rounds(program, region, at, model, slope, walls, tried * program.beta, coupled)
            if found is None:
                continue
            there, promised = found
            gain = at.value - there.value
            if promised > _FLAT * abs(at.value) and gain > 0.1 * promised:
                smaller = gain > 0.75 * promised and attempt == 0
                return FaceMove(there, max(tried * (0.1 if smaller else 1.0), 1e-10))
            if _steadier(program, region, at, there, steepest):
                return FaceMove(there, damping)
        tried = max(10 * tried, 1e-4)
    return _downhill(program, region, at, slope, steepest, damping)


def _rounds(
    program: Program,
    region: Region,
    at: Place,
    model: Model,
    slope: Tensor,
    walls: Walls,
    damping: float,
    coupled: bool,
) -> tuple[Place, float] | None:
    """The best feasible candidate of a few rounds, and the decrease that the model promises for it."""
    factors, p = at.factors, at.factors.left.shape[1]
    best: tuple[Place, float] | None = None
    landed = None
    for _ in range(_ROUNDS):
        along, onto = walls.face(factors.left)
        lift = torch.cat([onto, torch.zeros_like(factors.right)], dim=1)
        bend = model.product(lift, coupled).add_(lift, alpha=damping)
        step = model.solve(slope + bend, damping, coupled, along)
        if step is None:
            return best
        step = step + lift
        landed = feasible(region, factors.left + step[:, :p], factors.gate, landed)
        there = place(program, Factors(landed.point, factors.right + step[:, p:], factors.gate))
        taken = torch.cat([landed.point - factors.left, step[:, p:]], dim=1)
        promised = -float((slope * taken).sum() + 0.5 * (taken * model.product(taken, coupled)).sum())
        if best is None or there.value < best[0].value:
            best = there, promised
        if not bool((landed.multipliers > 0).any()) or deadline.over():
            break
        walls = walls.joined(walls_of(region, landed))
    return best


def _steadier(program: Program, region: Region, at: Place, there: Place, steepest: Tensor) -> bool:
    """Where the objective no longer tells two points apart, the slope still does."""
    if there.value > at.value + 4 * _FLAT * abs(at.value):
        return False
    now, _ = descent(region, there.factors, gradient(program, there))
    return float(torch.linalg.vector_norm(now)) < 0.8 * float(torch.linalg.vector_norm(steepest))


def _downhill(program: Program, region: Region, at: Place, slope: Tensor, steepest: Tensor, damping: float) -> FaceMove:
    """Along the steepest descent, projected, by halves until the objective falls."""
    factors, p = at.factors, at.factors.left.shape[1]
    length = 1 / program.beta
    for _ in range(_BACKTRACKS):
        landed = feasible(region, factors.left + length * steepest[:, :p], factors.gate).point
        there = place(program, Factors(landed, factors.right + length * steepest[:, p:], factors.gate))
        moved = torch.cat([landed, there.factors.right], 1) - torch.cat([factors.left, factors.right], 1)
        if there.value < at.value + 0.1 * float((slope * moved).sum()):
            return FaceMove(there, damping)
        length /= 2
    return FaceMove(at, damping, stuck=True)
