"""A primal-dual interior point for ReLU programs with one output, on some pairs (gate, sign).

    min L(Σ_j A_j u_j) + β Σ_j t_j     over  ‖u_j‖ ≤ t_j,  K_j u_j ≥ 0                                       CP (9)

With multipliers λ_j ≥ 0 of the rows and (β, y_j) of the norm's cone it is optimal where

    y_j + K_jᵀλ_j = A_jᵀ∇L,    ‖y_j‖ ≤ β,    t_jβ + u_jᵀy_j = 0,    λ_j ∘ K_j u_j = 0

so ‖y_j‖ ≤ β is the certificate itself: A_jᵀ∇L − K_jᵀλ_j bounds the polar.  u stays strictly inside its cone.  Where the
loss has kinks, ∇L has variables of its own (`slope`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.interior.pairs.caps import Points, Scaling, product
from provenet.solvers.interior.pairs.newton import Newton
from provenet.solvers.interior.pairs.pairs import DistinctRows, Pairs
from provenet.solvers.interior.pairs.slope import Slope, Smooth

_BOUNDARY = 0.99  # share of the way to the boundary of the cones
_PARTS = ("u", "t", "y", "s", "multipliers")
_CORRECTIONS = 2
_BAND = 10.0  # complementarities within this factor of the aim are central enough
_WORTHWHILE = 0.01  # what a correction must add to the step
_LAG, _MOST = 0.1, 0.5  # μ falls no faster than this times the residual's share allows, or than the other at worst
_PRECISE = 3e-4  # of the objective: below this complementarity systems are too stretched for single precision
_CENTRE_STEPS = 60
_CENTRED = 0.05  # Newton's decrement at which a point counts as central


@dataclass(frozen=True)
class Iterate:
    """u (J, p), t (J,), y (J, p); s and multipliers (J, N)."""

    pairs: Pairs
    u: Tensor
    t: Tensor
    y: Tensor
    s: Tensor
    multipliers: Tensor
    slope: Slope = field(default_factory=Smooth)

    @cached_property
    def prediction(self) -> Tensor:
        return self.pairs.forward(self.u)

    def complementarity(self, beta: float) -> float:
        """What the local gap is once the residual is zero."""
        rows = float((self.t * beta + (self.u * self.y).sum(1)).sum() + (self.s * self.multipliers).sum())
        return rows + float(self.slope.products().sum())

    @property
    def degree(self) -> int:
        return self.s.numel() + len(self.t) + self.slope.products().numel()

    def joined(self, pairs: Pairs, other: Iterate) -> Iterate:
        """Both, for the pairs of both, in this order."""
        both = {k: torch.cat([getattr(self, k), getattr(other, k)]) for k in _PARTS}
        return replace(self, pairs=pairs, **both)  # type: ignore[arg-type]

    def select(self, pairs: Pairs, keep: Tensor) -> Iterate:
        return replace(self, pairs=pairs, **{k: getattr(self, k)[keep] for k in _PARTS})

    def fitted(self) -> Iterate:
        """After a change of pairs: the slope follows the prediction."""
        return replace(self, slope=self.slope.fitted(self.prediction))


def central(table: DistinctRows, pairs: Pairs, pull: Tensor, beta: float, mu: float) -> Iterate:
    """Points with all complementarities μ and y + Kᵀλ = pull, nearly: a start may be rough.

    They minimise pullᵀu − μ Σ log Ku + (βt − ½μ log(t² − ‖u‖²) at its best t) over u, by damped Newton steps from the
    cones' inner points.  pull (J, p) must be bounded: its polar below β.
    """
    N, p = table.rows.shape
    eye = torch.eye(p, dtype=pull.dtype)
    u = table.cones.inside[pairs.gate] * (mu * (N + 1) / beta)
    for _ in range(_CENTRE_STEPS):
        t = _head(u, beta, mu)
        inverse = 1 / (u @ table.rows.T)  # a row's sign is in it once more than in the slack, and cancels
        gradient = pull - mu * inverse @ table.rows + beta * u / t[:, None]
        spread = 2 * t - mu / beta  # ∂t/∂u = 2u/spread
        radial = 2 * beta / (t.square() * spread)
        hessian = mu * table.weighted(inverse.square())
        hessian += (beta / t)[:, None, None] * eye - radial[:, None, None] * u[:, :, None] * u[:, None, :]
        move = -torch.linalg.solve(hessian, gradient[:, :, None]).squeeze(2)
        decrement = ((-gradient * move).sum(1).clamp_min(0) / mu).sqrt()
        if float(decrement.max()) < _CENTRED:
            break
        # most of the way to the boundary where the slope there still falls; else what self-concordance allows
        ratio = inverse * (move @ table.rows.T)  # ds/s
        far = (0.8 / (-ratio).amax(1).clamp_min(1e-300)).clamp_max(1.0) if N else torch.ones_like(t)
        there = u + far[:, None] * move
        slope = ((pull + beta * there / _head(there, beta, mu)[:, None]) * move).sum(1)
        slope -= mu * (ratio / (1 + far[:, None] * ratio)).sum(1)
        u = u + torch.where(slope <= 0, far, 1 / (1 + decrement))[:, None] * move
    t = _head(u, beta, mu)
    s = pairs.slack(u)
    return Iterate(pairs, u, t, -beta * u / t[:, None], s, mu / s)


def _head(u: Tensor, beta: float, mu: float) -> Tensor:
    """The t with βt² − μt = β‖u‖²: then (t, u) and (β, −βu/t) have complementarity μ."""
    return (mu + (mu**2 + 4 * beta**2 * u.square().sum(1)).sqrt()) / (2 * beta)


def objective(program: Program, at: Iterate) -> float:
    prediction = at.prediction.view(program.operator.output_shape)
    return float(program.loss.value(prediction)) + program.beta * float(torch.linalg.vector_norm(at.u, dim=1).sum())


def residual(program: Program, at: Iterate) -> Tensor:
    """y + Kᵀλ − AᵀΘ, (J, p)."""
    theta = at.slope.theta(program.loss, at.prediction)
    return at.y + at.pairs.pushed(at.multipliers) - at.pairs.adjoint(theta)


def advance(program: Program, table: DistinctRows, at: Iterate) -> Iterate:
    """One step: predictor and corrector (Mehrotra 1992), then corrections towards the centre (Gondzio 1996).

    A factorisation costs far more than a direction, so directions are improved while the step they allow grows.
    """
    step = _Step(program, table, at)
    here, beta = step.caps.point, program.beta
    mu = at.complementarity(beta) / at.degree
    squared = product(here, here)
    bends = at.slope.products()
    affine = step.direction((-squared[0], -squared[1]), -at.multipliers * at.s, -bends, refined=False)
    ahead = step.moved(affine, min(1.0, step.longest(affine)))
    # while the residual is far from zero, a small μ would only pin the iterate to the boundary
    lag = _LAG * float((step.residual * at.u).sum(1).abs().sum()) / at.complementarity(beta)
    aim = mu * max(max(ahead.complementarity(beta) / at.degree / mu, 0.0) ** 3, min(_MOST, lag))
    second = product(*step.scaled(affine, 0.0))
    caps = aim - squared[0] - second[0], -squared[1] - second[1]
    rows = aim - at.multipliers * at.s - affine.s * affine.multipliers
    bends = aim - bends - at.slope.second(affine.slope)
    best = step.direction(caps, rows, bends)
    length = min(1.0, _BOUNDARY * step.longest(best))
    for _ in range(_CORRECTIONS):
        trial = step.moved(best, min(1.0, 1.5 * length + 0.1))
        more = _towards(product(*step.scaled(trial, beta)), aim)
        caps = caps[0] + more[0], caps[1] + more[1]
        rows = rows + _into_band(trial.s * trial.multipliers, aim)
        bends = bends + _into_band(trial.slope.products(), aim)
        other = step.direction(caps, rows, bends)
        longer = min(1.0, _BOUNDARY * step.longest(other))
        if longer < length + _WORTHWHILE:
            break
        best, length = other, longer
    return step.moved(best, length)


def _into_band(value: Tensor, aim: float) -> Tensor:
    """What brings complementarities near to ``aim``; large ones are only brought down a little."""
    low, high = aim / _BAND, aim * _BAND
    return (value.clamp(low, high) - value).clamp_min(-high)


def _towards(value: Points, aim: float) -> Points:
    """The same for the caps, on both eigenvalues of each."""
    length = torch.linalg.vector_norm(value[1], dim=1)
    low, high = _into_band(value[0] - length, aim), _into_band(value[0] + length, aim)
    along = value[1] / length.clamp_min(1e-300)[:, None]
    return (low + high) / 2, along * ((high - low) / 2)[:, None]


class _Step:
    def __init__(self, program: Program, table: DistinctRows, at: Iterate):
        curvature = at.slope.curvature(program.loss, at.prediction)
        self.at, self.loss = at, program.loss
        self.residual = residual(program, at)
        self.caps = Scaling.of((at.t, at.u), (torch.full_like(at.t, program.beta), at.y))
        rough = at.complementarity(program.beta) > _PRECISE * objective(program, at)
        free = program.operator.output_shape[-1] if program.loss.free else 0
        self.newton = Newton.of(table, at.pairs, self.caps, at.multipliers / at.s, curvature, rough, free)

    def direction(self, caps: Points, rows: Tensor, bends: Tensor, refined: bool = True) -> Iterate:
        """For the wanted changes of the complementarities: of the caps (scaled), of the rows λ∘s, of the slope."""
        at, pairs = self.at, self.at.pairs
        head, tail = self.caps.without_head(self.caps.inverse(self.caps.divided(caps)))
        push = rows / at.s
        offset = at.slope.offset(self.loss, at.prediction, bends)
        rhs = self.residual + tail + pairs.pushed(push) - pairs.adjoint(offset)
        du, good = self.newton.solve(rhs) if refined else (self.newton.roughly(rhs), True)
        if not good and self.newton.rough:
            self.newton = self.newton.in_double()
            du, _ = self.newton.solve(rhs)
        dt, bent = self.caps.slopes(du)
        ds = pairs.slack(du)
        slope = at.slope.direction(self.loss, at.prediction, pairs.forward(du), bends)
        return Iterate(pairs, du, head + dt, tail - bent, ds, push - self.newton.weight * ds, slope)

    def longest(self, d: Iterate) -> float:
        at = self.at
        falls = [float((-change / value).amax()) for change, value in ((d.s, at.s), (d.multipliers, at.multipliers))]
        falls.append(at.slope.fall(d.slope))
        rows = 1 / max(falls) if max(falls) > 0 else float("inf")
        x, z = self.scaled(d, 0.0)
        return min(rows, self.caps.longest(x), self.caps.longest(z))

    def scaled(self, d: Iterate, head: float) -> tuple[Points, Points]:
        """W⁻¹(t, u) and W(head, y)."""
        return self.caps.inverse((d.t, d.u)), self.caps.times((torch.full_like(d.t, head), d.y))

    def moved(self, d: Iterate, step: float) -> Iterate:
        at = self.at
        changed = {k: getattr(at, k) + step * getattr(d, k) for k in _PARTS}
        return replace(at, slope=at.slope.moved(d.slope, step), **changed)
