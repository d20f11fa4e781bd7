"""Newton on the faces of the cones: a step is free along the walls that hold a neuron back, and stops at others.

The quadratic model of the objective (`neurons.hessian`) is minimised with the walls that bend the steepest descent as
equations.  Where that leaves a cone, the walls in the way become equations too, and the model is minimised again: few
rounds of an active-set method, each ended by a projection on the cones, so that every candidate is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import Region, project
from provenet.cones.projection import Projection, least
from provenet.problem import Program
from provenet.solvers.cones.face_model import FaceModel
from provenet.solvers.cones.faces import Walls, descent, feasible, walls_of
from provenet.solvers.neurons.hessian import Model
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import Place, gradient, place, shifted
from provenet.variable import Factors

_ROUNDS = 5  # of adding walls
_TRIES = 6  # dampings
_REACHES = (0.5, 0.02, 1e-3)  # of 1/β: how far walls are looked for
_DAMPINGS = (1.0, 1e2, 1e4)  # of a Hessian along the faces, in units of β, where less does not descend
_LESS, _LEAST_DAMPING = 1e-2, 1e-3  # of a damping that descended: what the next step begins with, and at least
_LITTLE = 1e-3  # damping, near a point that is stationary
_STILL = 1e-11  # a steepest descent below this part of β·‖weights‖ is zero
_FLAT = 1e-14  # a promised decrease below this part of the objective drowns in rounding
_BACKTRACKS = 40
_LENGTHS = (1.0, 0.3, 0.1)  # of the way to where a step lands
_TOUCH = 1e-10  # of ‖u‖: unit rows violated by no more are as good as met


class Effort(Enum):
    """What is done for a step to descend: one try along the faces, some, or whatever there is."""

    LITTLE = 0
    SOME = 1
    ALL = 2


class Seen(NamedTuple):
    """The walls that neurons behind these gates (N,) were last seen to belong to."""

    gate: Tensor
    found: Projection


@dataclass(frozen=True)
class FaceMove:
    """Where a step led.  damping: in units of β.  ``stuck``: nowhere.  seen: for the next step to begin with."""

    place: Place
    damping: float
    stuck: bool = False
    seen: Seen | None = None


def face_step(
    program: Program,
    region: Region,
    at: Place,
    damping: float,
    settings: NewtonSettings,
    seen: Seen | None = None,
    effort: Effort = Effort.ALL,
) -> FaceMove:
    """One descending step; ``settings`` are for programs whose Hessian is too large even along the faces."""
    slope = gradient(program, at)
    formed = _formed(program, region, at, slope, damping, seen, effort)
    return formed or _applied(program, region, at, slope, damping, settings)


def improved(program: Program, region: Region, at: Place, steps: int) -> Place:
    """``at`` after up to ``steps`` descending steps."""
    damping, seen = _LITTLE, None
    for _ in range(steps):
        if at.factors.n_neurons == 0 or deadline.over():
            break
        move = face_step(program, region, at, damping, NewtonSettings(), seen)
        if move.stuck or not move.place.value < at.value:
            break
        at, damping, seen = move.place, move.damping, move.seen
    return at


def _formed(
    program: Program,
    region: Region,
    at: Place,
    slope: Tensor,
    damping: float,
    seen: Seen | None,
    effort: Effort,
) -> FaceMove | None:
    """A step with the Hessian formed along the faces; None where that is too large, or no damping descends and
    all effort is to be made.

    Stationary points have u_j = Proj_K(−G_k v_j)/β: the walls of Proj_K(u − t∇_u), t ≤ 1/β, are where u_j belongs,
    known before it is there.  How far walls are looked for and how much a step along them is damped are two things:
    near the end the walls are the right ones, and neurons may move freely.  Where no damping descends, nearer walls do.
    """
    factors, p = at.factors, at.factors.left.shape[1]
    found = seen.found if seen is not None and torch.equal(seen.gate, factors.gate) else None
    for reach in _REACHES[:1] if effort is Effort.LITTLE else _REACHES:
        pull = factors.left - slope[:, :p] * (reach / program.beta)
        found = project(region.rows, region.signs[factors.gate], pull, found)
        walls = walls_of(region, found)
        if deadline.over() or not FaceModel.affordable(walls, at):
            return None
        model = FaceModel(program, at, slope, walls)
        for tried in (damping, *(more for more in _DAMPINGS if more > damping)):
            step = model.solve(tried * program.beta, True)
            if step is None:
                step = model.solve(tried * program.beta, False)
            if step is None or deadline.over():
                return None
            if abs(float((slope * step).sum())) <= _FLAT * abs(at.value):
                return FaceMove(at, damping, stuck=True)
            there = _landed(program, region, at, step, found)
            if there is not None:
                return FaceMove(there, max(tried * _LESS, _LEAST_DAMPING), seen=Seen(factors.gate, found))
    return None if effort is Effort.ALL else FaceMove(at, damping, stuck=True)


def _landed(program: Program, region: Region, at: Place, step: Tensor, known: Projection) -> Place | None:
    """The neurons moved, those few that left their cones back in them (``known``: projections near by), and of that
    way, which leaves no cone, as much as descends; None where nothing does."""
    factors, p = at.factors, at.factors.left.shape[1]
    left = factors.left + step[:, :p]
    worst, _ = least(region.rows, region.signs[factors.gate], left)
    out = torch.nonzero(worst < -_TOUCH * torch.linalg.vector_norm(left, dim=1)).flatten()
    if out.numel():
        left = left.index_copy(0, out, feasible(region, left[out], factors.gate[out], known.select(out)).point)
    way = torch.cat([left - factors.left, step[:, p:]], dim=1)
    for length in _LENGTHS:
        there = place(program, shifted(factors, length * way))
        if there.value < at.value - _FLAT * abs(at.value):
            return there
        if deadline.over():
            break
    return None


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
