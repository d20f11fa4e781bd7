"""Second-order steps on the factors: straight Gauss–Newton far from the solution, damped Newton close to it.

With J the Jacobian of Ŷ by the neurons (u_j, v_j) and G = A*∇L(Ŷ), the Hessian of BM eq. 17, 18 is

    H = JᵀL''J + βI + [ 0  G_k(j) ; G_k(j)ᵀ  0 ] on each neuron's own (u_j, v_j)

Rotations U_kQ, V_kQ leave the objective as it is: H has null directions, along which the gradient vanishes and the
damping keeps the step finite.

**Straight steps.**  A step (du, dv) changes Z_k by du vᵀ + u dvᵀ + du dvᵀ.  The last term moves the prediction off any
quadratic model, and where β is small that confines plain steps to tiny ones along a curved valley.  The neuron
(−du, dv) takes it out again: the prediction is then exactly linear in the step, and the objective at most

    L(Ŷ + Jd) + β/2 Σ(‖u + du‖² + ‖v + dv‖²) + β Σ‖du‖‖dv‖,

which the Gauss–Newton model JᵀL''J + βI with a damping of β bounds for a quadratic loss.  That model is convex, asks
for no small steps, and comes near the solution in a few; there H without damping converges quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.hessian import DenseModel, Model, ProductModel
from provenet.solvers.neurons.place import Place, compress, gradient, place, shifted
from provenet.variable import Factors

_TRIES = 20  # dampings tried in one step
_LITTLE = 0.25  # a neuron changes little where ‖du‖‖dv‖ is below this part of ‖u‖‖v‖
_FLAT = 1e-14  # a promised decrease below this part of the objective drowns in rounding
_NEAR = 1e-3  # a gain below this part of the objective: time to try Newton
_LEAST_STRAIGHT = 0.05  # β is the damping that is sure to descend; less is bolder


@dataclass(frozen=True)
class NewtonSettings:
    """dense: unknowns N(p + q) up to which the Hessian is formed, if the Jacobian, N(p + q) × n·c, has no more than
    ``entries``.  cg_steps: products with it in one solve beyond that."""

    dense: int = 2000
    entries: int = 3_000_000
    cg_steps: int = 100

    def model(self, program: Program, at: Place) -> Model:
        """Of the objective at a place: formed, or as products."""
        unknowns = at.factors.left.numel() + at.factors.right.numel()
        dense = unknowns <= self.dense and unknowns * at.prediction.numel() <= self.entries
        return DenseModel(program, at) if dense else ProductModel(program, at, self.cg_steps)


@dataclass(frozen=True)
class Damping:
    """In units of β, one for each model.  ``close``: whether to try Newton first."""

    newton: float = 1.0
    straight: float = 0.3
    close: bool = False


@dataclass(frozen=True)
class NewtonMove:
    """Where a step led.  ``flat``: as far as the objective can tell, nowhere new.  ``stuck``: nowhere at all."""

    place: Place
    damping: Damping
    flat: bool = False
    stuck: bool = False


def newton_step(program: Program, at: Place, damping: Damping, last: float, settings: NewtonSettings) -> NewtonMove:
    """One step, after one that lowered the objective by ``last``: Newton where it is trusted, else straight."""
    slope, model = gradient(program, at), settings.model(program, at)
    move = _newton(program, at, slope, model, damping) if damping.close else None
    if move is None:
        if damping.close:
            damping = replace(damping, newton=max(4 * damping.newton, 1e-8), close=False)
        move = _straight(program, at, slope, model, damping, last)
    return _last_digits(program, at, slope, model, damping) if move is None else move


def _newton(program: Program, at: Place, slope: Tensor, model: Model, damping: Damping) -> NewtonMove | None:
    """One try of the full Hessian; None where it does not do."""
    step = model.solve(slope, damping.newton * program.beta, coupled=True)
    if step is None:
        return None
    promised = -float((slope * step).sum() + 0.5 * (step * model.product(step, coupled=True)).sum())
    if promised <= _FLAT * abs(at.value):
        return None
    best = _best(program, at.factors, step)
    quality = (at.value - best.value) / promised
    if not quality > 0.1:
        return None
    factor = 0.1 if quality > 0.75 else 1.0 if quality > 0.25 else 4.0
    return NewtonMove(best, replace(damping, newton=damping.newton * factor))


def _straight(
    program: Program, at: Place, slope: Tensor, model: Model, damping: Damping, last: float
) -> NewtonMove | None:
    """Gauss–Newton, damped until it descends as promised; None where it promises nothing."""
    for attempt in range(_TRIES):
        step = model.solve(slope, damping.straight * program.beta, coupled=False)
        if step is not None:
            promised = -float((slope * step).sum() + 0.5 * (step * model.product(step, coupled=False)).sum())
            if promised <= _FLAT * abs(at.value):
                return None
            best = _best(program, at.factors, step)
            gain = at.value - best.value
            if gain > 0.1 * promised:
                factor = 0.5 if gain > 0.75 * promised and attempt == 0 else 1.0
                close = gain > 0.5 * last or gain < _NEAR * abs(at.value)
                straight = max(damping.straight * factor, _LEAST_STRAIGHT)
                return NewtonMove(best, replace(damping, straight=straight, close=close))
        damping = replace(damping, straight=4 * damping.straight)
    return None


def _last_digits(program: Program, at: Place, slope: Tensor, model: Model, damping: Damping) -> NewtonMove:
    """Where the objective no longer tells two points apart, the gradient still does."""
    steepness = float(torch.linalg.vector_norm(slope))
    for factor in (1.0, 1e-3, 1e-6, 0.0, 1e2, 1e4):
        step = model.solve(slope, factor * damping.newton * program.beta, coupled=True)
        if step is None:
            continue
        for candidate in _candidates(program, at.factors, step):
            if candidate.value > at.value + 4 * _FLAT * abs(at.value):
                continue
            if float(torch.linalg.vector_norm(gradient(program, candidate))) < 0.8 * steepness:
                return NewtonMove(candidate, replace(damping, close=True), flat=True)
    return NewtonMove(at, damping, stuck=True)


def _best(program: Program, factors: Factors, step: Tensor) -> Place:
    """With its best amplitudes: a step is judged by where it leads in the end.  Until then neurons that lift it cost
    more than they are worth, and the damping would stay far too large."""
    best = min(_candidates(program, factors, step), key=lambda candidate: candidate.value)
    return best_amplitudes(program, best)


def _candidates(program: Program, factors: Factors, step: Tensor) -> list[Place]:
    """The step plain; straight; straight for the neurons it changes little only; and, of the straight ones, without
    the neurons whose amplitude the model takes below zero."""
    p = factors.left.shape[1]
    plain = shifted(factors, step)
    cross = Factors(-step[:, :p], step[:, p:], factors.gate)
    everywhere = torch.ones_like(factors.gate, dtype=torch.bool)
    little = cross.sizes() < _LITTLE * factors.sizes()
    growth = _ratio(factors.left, step[:, :p]) + _ratio(factors.right, step[:, p:])
    alive = growth > -1
    choices = [(everywhere, ~everywhere), (everywhere, everywhere), (everywhere, little)]
    if not bool(alive.all()):
        choices += [(alive, alive), (alive, alive & little)]
    return [place(program, compress(Factors.join(plain.select(keep), cross.select(lift)))) for keep, lift in choices]


def _ratio(weights: Tensor, change: Tensor) -> Tensor:
    """⟨w_j, dw_j⟩/‖w_j‖², (N,)."""
    return (weights * change).sum(1) / weights.square().sum(1).clamp_min(torch.finfo(weights.dtype).tiny)
