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
from provenet.cones import Region, project
from provenet.cones.projection import least
from provenet.problem import Program
from provenet.solvers.cones.face_model import FaceModel
from provenet.solvers.cones.faces import Walls, descent, feasible, walls_of
from provenet.solvers.neurons.hessian import Model
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import Place, gradient, place
from provenet.variable import Factors

_ROUNDS = 5  # of adding walls
_TRIES = 6  # dampings
_DAMPINGS, _MORE = 4, 10.0  # of a Hessian along the faces
_LITTLE = 1e-3  # damping, near a point that is stationary
_STILL = 1e-11  # a steepest descent below this part of β·‖weights‖ is zero
_FLAT = 1e-14  # a promised decrease below this part of the objective drowns in rounding
_BACKTRACKS = 40
_LENGTHS = (1.0, 0.3)
_TOUCH = 1e-10  # of ‖u‖: unit rows violated by no more are as good as met


@dataclass(frozen=True)
class FaceMove:
    """Where a step led.  damping: in units of β.  ``stuck``: nowhere."""

    place: Place
    damping: float
    stuck: bool = False


def face_step(program: Program, region: Region, at: Place, damping: float, settings: NewtonSettings) -> FaceMove:
    """One descending step; ``settings`` are for programs whose Hessian is too large even along the faces."""
    slope = gradient(program, at)
    return _formed(program, region, at, slope, damping) or _applied(program, region, at, slope, damping, settings)


def improved(program: Program, region: Region, at: Place, steps: int) -> Place:
    """``at`` after up to ``steps`` descending steps."""
    damping = _LITTLE
    for _ in range(steps):
        if at.factors.n_neurons == 0 or deadline.over():
            break
        move = face_step(program, region, at, damping, NewtonSettings())
        if move.stuck or not move.place.value < at.value:
            break
        at, damping = move.place, move.damping
    return at


def _formed(program: Program, region: Region, at: Place, slope: Tensor, damping: float) -> FaceMove | None:
    """A step with the Hessian formed along the faces; None where that is too large, or no damping descends.

    Stationary points have u_j = Proj_K(−G_k v_j)/β: the walls of Proj_K(u − t∇_u), t = 1/β, are where u_j belongs,
    known before it is there.  The more damping, the shorter t, and the nearer the walls.
    """
    factors, p = at.factors, at.factors.left.shape[1]
    tried = damping
    for attempt in range(_DAMPINGS):
        pull = factors.left - slope[:, :p] / (program.beta * (1 + tried))
        walls = walls_of(region, project(region.rows, region.signs[factors.gate], pull))
        if deadline.over() or not FaceModel.affordable(walls, at):
            return None
        model = FaceModel(program, at, slope, walls)
        for coupled in (True, False):
            step = model.solve(tried * program.beta, coupled)
            if deadline.over():
                return None
            if step is None:
                continue
            for length in _LENGTHS:
                there = _landed(program, region, factors, length * step)
                if there.value < at.value - _FLAT * abs(at.value):
                    smaller = attempt == 0 and length == 1
                    return FaceMove(there, max(tried * (0.2 if smaller else 1.0), 1e-8))
                if deadline.over():
                    return None
        tried = max(_MORE * tried, 1.0)  # less would leave the walls where they are
    return None


def _landed(program: Program, region: Region, factors: Factors, step: Tensor) -> Place:
    """The neurons moved, and back into their cones: those few that left them."""
    p = factors.left.shape[1]
    left = factors.left + step[:, :p]
    size = torch.linalg.vector_norm(left, dim=1)
    worst, _ = least(region.rows, region.signs[factors.gate], left)
    out = torch.nonzero(worst < -_TOUCH * size).flatten()
    if out.numel():
        left = left.index_copy(0, out, feasible(region, left[out], factors.gate[out]).point)
    return place(program, Factors(left, factors.right + step[:, p:], factors.gate))


def _applied(
    program: Program, region: Region, at: Place, slope: Tensor, damping: float, settings: NewtonSettings
) -> FaceMove:
    """Active sets around a model that is formed, or applied, as a whole."""
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
        across, onto = walls.face(factors.left)
        lift = torch.cat([onto, torch.zeros_like(factors.right)], dim=1)
        bend = model.product(lift, coupled).add_(lift, alpha=damping)
        step = model.solve(slope + bend, damping, coupled, across)
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
        if deadline.over():
            return FaceMove(at, damping)
        length /= 2
    return FaceMove(at, damping, stuck=True)
