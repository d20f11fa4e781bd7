"""The dual of the copositive relaxation, followed along its central path (CP eq. 19; its dual as in CP eq. 11).

    max −L*(Θ)   s.t.   R_k = β²I − Σ_l s_l C_l − G_kG_kᵀ ⪰ 0,   s ≥ 0,     G_k = A_k*Θ,  C_l = (a_l b_lᵀ + b_l a_lᵀ)/2

    F(Θ, s) = L*(Θ) − μ Σ_k (log det R_k + Σ_l log s_l)

Every point inside proves −L*(Θ) ≤ p*: uᵀC_l u ≥ 0 in the cone, so ‖G_kᵀu‖² ≤ β² there.  At the minimum of F the
T_k = μR_k⁻¹ solve the relaxation itself, up to μ.  The multipliers s of a gate know nothing of other gates: they are
eliminated gate by gate, and what is left, in Θ alone, goes to conjugate gradients through the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.losses import Conjugate
from provenet.problem import Program
from provenet.solvers.interior.copositive.cuts import Cuts
from provenet.variable import Stack

_CG_STEPS = 200
_CG_ACCURACY = 0.1
_TRIES = 30
_DESCENT = 0.05
_BOUNDARY = 0.7  # of the way to it: with bolder steps a few gates stick to it, and walls are missed
_SHORTER = 0.6


@dataclass(frozen=True)
class Barrier:
    program: Program
    conjugate: Conjugate

    def room(self, theta: Tensor, cuts: Cuts) -> tuple[Tensor, Stack]:
        """R (P, p, p) and G (P, p, q)."""
        G = self.program.operator.adjoint(theta)
        eye = torch.eye(G.shape[1], dtype=G.dtype)
        return self.program.beta**2 * eye - cuts.combined(cuts.s) - G @ G.mT, G

    def value(self, theta: Tensor, cuts: Cuts, mu: float) -> float:
        """F(Θ, s); +∞ outside."""
        root, failed = torch.linalg.cholesky_ex(self.room(theta, cuts)[0])
        if bool(failed.any()):
            return float("inf")
        logs = 2 * root.diagonal(dim1=1, dim2=2).log().sum() + cuts.s[cuts.there].log().sum()
        return self.conjugate.value(theta, mu) - mu * float(logs)

    def newton(self, theta: Tensor, cuts: Cuts, mu: float) -> tuple[Tensor, Cuts, float]:
        """The next Θ and s, and the square of Newton's decrement before the step."""
        R, G = self.room(theta, cuts)
        gates = _Gates(R, G, cuts)
        operator = self.program.operator
        slope = self.conjugate.slope(theta, mu) + mu * operator.forward(gates.reduced_slope())

        def curved(direction: Tensor) -> Tensor:
            return mu * operator.forward(gates.curvature(operator.adjoint(direction)))

        step = _conjugate_gradients(lambda r: self.conjugate.flat(theta, mu, r), curved, -slope)
        ds = gates.multipliers(operator.adjoint(step))
        decrement = -float((step * slope).sum()) / mu + gates.own_decrement
        shrinking = float((ds / cuts.s.clamp_min(1e-300))[cuts.there].min()) if bool(cuts.there.any()) else 0.0
        length = min(1.0, -_BOUNDARY / shrinking if shrinking < 0 else 1.0)
        now, nearest = self.value(theta, cuts, mu), (1 - _BOUNDARY) * R
        for _ in range(_TRIES):
            moved = theta + length * step, replace(cuts, s=torch.where(cuts.there, cuts.s + length * ds, 0.0))
            aim = now - _DESCENT * length * mu * decrement + 1e-13 * abs(now)
            if self.value(*moved, mu) <= aim and _positive(self.room(*moved)[0] - nearest):
                return *moved, decrement
            length *= _SHORTER
            if deadline.over():
                break
        return theta, cuts, 0.0  # rounding, or the clock, leaves no descent


def _positive(blocks: Tensor) -> bool:
    return not bool(torch.linalg.cholesky_ex(blocks).info.any())


class _Gates:
    """Second derivatives of −log det R_k − Σ log s, the multipliers eliminated; s in units of itself."""

    def __init__(self, R: Tensor, G: Stack, cuts: Cuts):
        self.G, self.cuts = G, cuts
        self.W = torch.cholesky_inverse(torch.linalg.cholesky(R))
        self.WG = self.W @ G
        self.aW, self.bW = cuts.a @ self.W, cuts.b @ self.W
        self.own_slope = torch.where(cuts.there, cuts.s * (self.aW * cuts.b).sum(2) - 1, 0.0)
        aa, bb, ab = self.aW @ cuts.a.mT, self.bW @ cuts.b.mT, self.aW @ cuts.b.mT
        hessian = aa.mul_(bb).add_(ab * ab.mT).mul_(0.5 * cuts.s[:, :, None]).mul_(cuts.s[:, None, :])
        hessian.diagonal(dim1=1, dim2=2).add_(1.0)
        self.root = torch.linalg.cholesky(hessian)
        self.own_step = self._solved(self.own_slope)
        self.own_decrement = float((self.own_slope * self.own_step).sum())

    def _solved(self, rhs: Tensor) -> Tensor:
        return torch.cholesky_solve(rhs[:, :, None], self.root)[:, :, 0]

    def _felt(self, E: Tensor) -> Tensor:
        """How a change E of −R moves the slopes of s."""
        return self.cuts.s * ((self.aW @ E) * self.bW).sum(2)

    def _change(self, dG: Stack) -> Tensor:
        E = dG @ self.G.mT
        return E + E.mT

    def reduced_slope(self) -> Stack:
        """The slope in G, less what the multipliers' own step takes of it."""
        return 2 * (self.WG - self.W @ (self.cuts.combined(self.own_step * self.cuts.s) @ self.WG))

    def curvature(self, dG: Stack) -> Stack:
        E = self._change(dG)
        taken = self.cuts.combined(self._solved(self._felt(E)) * self.cuts.s)
        return 2 * (self.W @ (dG + (E - taken) @ self.WG))

    def multipliers(self, dG: Stack) -> Tensor:
        """Newton's step of s that goes with a step of G."""
        return -self.cuts.s * self._solved(self.own_slope + self._felt(self._change(dG)))


def _conjugate_gradients(flat: Callable[[Tensor], Tensor], curved: Callable[[Tensor], Tensor], rhs: Tensor) -> Tensor:
    """x with (B⁻¹ + H)x ≈ rhs, preconditioned by B = ``flat``; B⁻¹ is never applied, as each direction is B times
    another one that is known."""
    x, r = torch.zeros_like(rhs), rhs
    z = flat(r)
    size = begin = float((r * z).sum())
    source, direction = r, z  # direction = B·source
    for _ in range(_CG_STEPS):
        if size <= _CG_ACCURACY**2 * begin or deadline.over():
            break
        image = source + curved(direction)
        length = size / float((direction * image).sum())
        x, r = x + length * direction, r - length * image
        z = flat(r)
        last, size = size, float((r * z).sum())
        source, direction = r + size / last * source, z + size / last * direction
    return x
