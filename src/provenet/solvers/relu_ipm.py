"""A primal-dual interior point for ReLU programs with one output, on some pairs (gate, sign).

    min L(Σ_j A_j u_j) + β Σ_j t_j     over  ‖u_j‖ ≤ t_j,  K_j u_j ≥ 0                                       CP (9)

With multipliers λ_j ≥ 0 of the rows and (β, y_j) of the norm's cone it is optimal where

    y_j + K_jᵀλ_j = A_jᵀ∇L,    ‖y_j‖ ≤ β,    t_jβ + u_jᵀy_j = 0,    λ_j ∘ K_j u_j = 0

so ‖y_j‖ ≤ β is the certificate itself: A_jᵀ∇L − K_jᵀλ_j bounds the polar.  u stays strictly inside its cone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.relu_ipm_caps import Points, Scaling, product
from provenet.solvers.relu_ipm_newton import Newton
from provenet.solvers.relu_ipm_pairs import Pairs, Table

_BOUNDARY = 0.99  # share of the way to the boundary of the cones
_CURVATURE = 1e-9  # of the largest: a sample may be flat, as Huber's are far out


@dataclass(frozen=True)
class Iterate:
    """u (J, p), t (J,), y (J, p); s and multipliers (J, N)."""

    pairs: Pairs
    u: Tensor
    t: Tensor
    y: Tensor
    s: Tensor
    multipliers: Tensor

    @cached_property
    def prediction(self) -> Tensor:
        return self.pairs.forward(self.u)

    def complementarity(self, beta: float) -> float:
        """What the local gap is once the residual is zero."""
        return float((self.t * beta + (self.u * self.y).sum(1)).sum() + (self.s * self.multipliers).sum())

    @property
    def degree(self) -> int:
        return self.s.numel() + len(self.t)

    def joined(self, other: Iterate) -> Iterate:
        cat = (torch.cat([getattr(self, k), getattr(other, k)]) for k in ("u", "t", "y", "s", "multipliers"))
        return Iterate(self.pairs.joined(other.pairs), *cat)

    def select(self, keep: Tensor) -> Iterate:
        parts = (getattr(self, k)[keep] for k in ("u", "t", "y", "s", "multipliers"))
        return Iterate(self.pairs.select(keep), *parts)


def central(pairs: Pairs, centres: Tensor, size: float, beta: float) -> Iterate:
    """u = size·centre and the multipliers for which all complementarities are equal and y + Kᵀλ = 0."""
    N = pairs.sides.shape[1]
    mu = beta * size / (N * (N + 1)) ** 0.5 if N else beta * size
    u = size * centres
    kappa = beta * (N / (N + 1)) ** 0.5
    s = pairs.slack(u)
    # x = μ z⁻¹ for z = (β, −κ·centre): its head
    t = torch.full((len(pairs),), mu * beta / (beta**2 - kappa**2), dtype=u.dtype)
    return Iterate(pairs, u, t, -kappa * centres, s, mu / s)


def residual(program: Program, at: Iterate) -> Tensor:
    """y + Kᵀλ − Aᵀ∇L, (J, p)."""
    theta = program.loss.gradient(at.prediction.view(program.operator.output_shape)).reshape(-1)
    return at.y + at.pairs.pushed(at.multipliers) - at.pairs.adjoint(theta)


def advance(program: Program, table: Table, at: Iterate) -> Iterate:
    """One predictor–corrector step (Mehrotra)."""
    beta = program.beta
    step = _Step(program, table, at)
    mu = at.complementarity(beta) / at.degree
    zero = torch.zeros_like(at.t)
    squared = product(step.caps.point, step.caps.point)
    affine = step.direction((-squared[0], -squared[1]), -at.multipliers * at.s)
    ahead = step.moved(affine, min(1.0, step.longest(affine)))
    sigma = max(ahead.complementarity(beta) / at.degree / mu, 0.0) ** 3
    second = product(step.caps.inverse((affine.t, affine.u)), step.caps.times((zero, affine.y)))
    aim = (sigma * mu - squared[0] - second[0], -squared[1] - second[1])
    rows = sigma * mu - at.multipliers * at.s - affine.s * affine.multipliers
    found = step.direction(aim, rows)
    return step.moved(found, min(1.0, _BOUNDARY * step.longest(found)))


class _Step:
    def __init__(self, program: Program, table: Table, at: Iterate):
        loss, shape = program.loss, program.operator.output_shape
        prediction = at.prediction.view(shape)
        curvature = loss.hessian_product(prediction, torch.ones_like(prediction)).reshape(-1)
        curvature = curvature.clamp_min(_CURVATURE * loss.smoothness())
        self.at = at
        self.residual = residual(program, at)
        self.caps = Scaling.of((at.t, at.u), (torch.full_like(at.t, program.beta), at.y))
        self.newton = Newton.of(table, at.pairs, self.caps, at.multipliers / at.s, curvature)

    def direction(self, caps: Points, rows: Tensor) -> Iterate:
        """For the wanted changes of both complementarities: of the caps (scaled), of the rows λ∘s."""
        at, pairs = self.at, self.at.pairs
        head, tail = self.caps.without_head(self.caps.inverse(self.caps.divided(caps)))
        push = rows / at.s
        du = self.newton.solve(self.residual + tail + pairs.pushed(push))
        dt, bent = self.caps.slopes(du)
        ds = pairs.slack(du)
        return Iterate(pairs, du, head + dt, tail - bent, ds, push - self.newton.weight * ds)

    def longest(self, d: Iterate) -> float:
        at = self.at
        worst = max(float((-d.s / at.s).amax()), float((-d.multipliers / at.multipliers).amax())) if d.s.numel() else 0.0
        rows = 1 / worst if worst > 0 else float("inf")
        x = self.caps.inverse((d.t, d.u))
        z = self.caps.times((torch.zeros_like(d.t), d.y))
        return min(rows, self.caps.longest(x), self.caps.longest(z))

    def moved(self, d: Iterate, step: float) -> Iterate:
        at = self.at
        changed = {k: getattr(at, k) + step * getattr(d, k) for k in ("u", "t", "y", "s", "multipliers")}
        return replace(at, **changed)
