"""One step of the interior point with walls: T_k ⪰ 0 and s = aᵀTb ≥ 0.

To T_kR_k = μI come sλ = μ for every wall, and R_k = 2∇_kφ − Σ_l λ_l (a_l b_lᵀ + b_l a_lᵀ)/2.  Eliminating the
multipliers λ adds Σ (λ_l/s_l) c_l c_lᵀ to the Newton matrix of a gate, c_l the wall as a vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from provenet.solvers.interior.blocks import LinAlgError, to_blocks, to_vector
from provenet.solvers.interior.copositive.walls import Walls
from provenet.solvers.interior.newton import (
    BOUNDARY,
    DESCENT,
    SHRINK,
    TRIES,
    Centre,
    aimed_at,
    centre_at,
    corrector,
    curvature,
    longest,
    newton_matrix,
    outer,
)
from provenet.solvers.interior.rows import Fit


@dataclass(frozen=True)
class Between:
    """An iterate: T, R and W in the centre, s and λ (P, L) of the walls; λ is zero where there is none."""

    centre: Centre
    slack: Tensor
    push: Tensor

    @property
    def complementarity(self) -> float:
        lam = self.centre.scaling.lam
        walls = self.push > 0
        return float((lam.square().sum() + (self.slack * self.push)[walls].sum()) / (lam.numel() + walls.sum()))


@dataclass(frozen=True)
class _Move:
    dT: Tensor
    dR: Tensor
    slack: Tensor
    push: Tensor


def advance(fit: Fit, walls: Walls, at: Between, beta: float) -> Between:
    """The next iterate: Mehrotra's step, or a shorter Newton step where the barrier function

        φ_ν(T) = φ(T) − ν/2 (Σ log det T_k + Σ log s_l)

    does not fall as promised.  Raises LinAlgError where rounding leaves no step.
    """
    centre, lam = at.centre, at.centre.scaling.lam
    G, m = centre.scaling.G, lam.shape[1]
    local = walls.scaled(G)
    trace_slope = beta**2 * G.mT @ G
    gradient = trace_slope - outer(centre.a, centre.a, m)  # 2∇φ
    value = float((fit.target * centre.W).sum())
    to_unit = centre.scaling.to_unit
    newton = _Newton(at, local, gradient)
    move, nu = newton.corrected(to_unit)
    bounce = torch.where(local.there, nu / at.slack, 0.0)
    barrier_slope = gradient - torch.diag_embed(nu / lam) - local.combined(bounce)
    step = _longest(at, to_unit, move)
    for attempt in range(TRIES):
        if attempt == 1:
            move = newton.direction(torch.diag_embed(nu / lam - lam), nu - at.slack * at.push, newton.defect)
            step = _longest(at, to_unit, move)
        moved = centre_at(fit, centre.scaling.moved(step * move.dT, step * move.dR))
        slack, push = at.slack + step * move.slack, at.push + step * move.push
        promised = step * float((barrier_slope * move.dT).sum())
        logs = torch.linalg.slogdet(torch.eye(m, dtype=lam.dtype) + step * to_unit * move.dT)[1].sum()
        logs = float(logs + torch.log1p(step * move.slack / at.slack).sum())
        change = float((fit.target * moved.W).sum()) - value + step * float((trace_slope * move.dT).sum()) - nu * logs
        if change <= DESCENT * promised + 1e-12 * value:
            return Between(moved, slack, push)
        step *= SHRINK
    raise LinAlgError("no step lowers the barrier function")


class _Newton:
    """dT + dR = rhs, s·dλ + λ·ds = aim and dR = 2∇²φ dT + defect − Σ dλ C, in the centre's coordinates."""

    def __init__(self, at: Between, local: Walls, gradient: Tensor):
        self.at, self.local = at, local
        lam = at.centre.scaling.lam
        self.defect = gradient - local.combined(at.push) - torch.diag_embed(lam)
        c = local.vectors()
        P, _, u = c.shape
        H = np.zeros((P, u, P, u))
        every = np.arange(P)
        walls = (c * (at.push / at.slack)[:, :, None]).mT @ c
        H[every, :, every, :] = np.eye(u) + walls.numpy()
        self.L = torch.linalg.cholesky(newton_matrix(at.centre, H.reshape(P * u, P * u).T))

    def direction(self, rhs: Tensor, aim: Tensor, defect: Tensor) -> _Move:
        """``aim`` (P, L): what s·dλ + λ·ds shall be."""
        at = self.at
        wanted = torch.where(self.local.there, aim / at.slack, 0.0)
        total = to_vector(rhs - defect + self.local.combined(wanted))
        dT = to_blocks(torch.cholesky_solve(total[:, None], self.L)[:, 0], rhs.shape[1])
        slack = self.local.change(dT)
        return _Move(dT, rhs - dT, slack, wanted - at.push / at.slack * slack)

    def corrected(self, to_unit: Tensor) -> tuple[_Move, float]:
        """Mehrotra's direction, and the complementarity ν = σμ it aims at."""
        at, lam = self.at, self.at.centre.scaling.lam
        Lam, mu = torch.diag_embed(lam), at.complementarity
        first = self.direction(-Lam, -at.slack * at.push, self.defect)
        step = _longest(at, to_unit, first)
        blocks = ((Lam + step * first.dT) * (Lam + step * first.dR)).sum()
        walls = torch.where(self.local.there, (at.slack + step * first.slack) * (at.push + step * first.push), 0.0)
        predicted = float((blocks + walls.sum()) / (lam.numel() + self.local.there.sum()))
        nu = aimed_at(mu, predicted, lam, self.defect)
        rhs = corrector(nu, lam, first.dT, first.dR)
        wall_aim = nu - at.slack * at.push - first.slack * first.push
        return self.direction(rhs, wall_aim, self.defect + curvature(at.centre, first.dT)), nu


def _longest(at: Between, to_unit: Tensor, move: _Move) -> float:
    """The longest step, at most one, that keeps T, R, s and λ positive."""
    push = torch.where(at.push > 0, move.push / at.push.clamp_min(torch.finfo(at.push.dtype).tiny), 0.0)
    least = min(float((move.slack / at.slack).min()), float(push.min()))
    return min(longest(to_unit, move.dT, move.dR), -BOUNDARY / least if least < 0 else 1.0)
