"""The analytic centre cutting plane method for the dual of a ReLU program, as CP A.5 has it, squared loss.

What is known of the best Θ is that it obeys the cuts so far and is no worse than the best feasible point so far:

    {Θ : ‖C_jΘ‖ ≤ β for all cuts j,  −L*(Θ) ≥ dual},    C_jΘ = (A_k*Θ)ᵀu_j

Cone-constrained PCA is asked at the analytic centre of that set, the least of −log(−L*(Θ) − dual) − Σ_j log(β² −
‖C_jΘ‖²), so that whatever it answers takes a good part of the set away.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.gauges import ConeGauge
from provenet.losses import Loss
from provenet.problem import Program
from provenet.solvers.cones.cutting_plane import CuttingPlane, CuttingPlaneState
from provenet.solvers.needs import CONES, SEPARATE, SQUARED

_STEPS = 100
_CENTRED = 1e-6  # Newton's decrement, squared
_ROOM = 1e-6  # of β, and of what is open: by so much the walls are moved out, so that a start is inside
_SHORTER = 40  # times a step may be halved


@dataclass(frozen=True)
class AnalyticCentre(CuttingPlane):
    """As `CuttingPlane`, which is quicker; its level plays no part."""

    name = "analytic_centre"
    needs = (CONES, SQUARED, SEPARATE)  # type: ignore[assignment]

    def _query(self, program: Program[ConeGauge], state: CuttingPlaneState) -> Tensor:
        own = program.loss.gradient(state.model.prediction)
        if state.cuts.n_neurons == 0:
            return own
        open_ = max(state.model.value - state.dual, torch.finfo(own.dtype).eps * abs(state.model.value))
        cuts = state.columns.flatten(2)  # (J, q, n·c)
        centre = _Centre(program.loss, cuts, program.beta * (1 + _ROOM), state.dual - _ROOM * open_)
        return centre.found((0.5 * (state.best + own)).flatten()).view_as(own)


class _Centre:
    """Of {Θ : ‖C_jΘ‖ ≤ radius, −L*(Θ) ≥ least}; Θ flat (n·c,), C (J, q, n·c)."""

    def __init__(self, loss: Loss, cuts: Tensor, radius: float, least: float):
        self.cuts, self.radius, self.least = cuts, radius, least
        self.weight = loss.weight.expand_as(loss.target).flatten()
        self.target = loss.target.flatten()

    def found(self, theta: Tensor) -> Tensor:
        """By Newton's method from a Θ inside; itself where rounding leaves it outside."""
        value = self._value(theta)
        for _ in range(_STEPS):
            if not value < torch.inf or deadline.over():
                break
            slope, hessian = self._model(theta)
            factor, failed = torch.linalg.cholesky_ex(hessian)
            if int(failed) != 0:
                break
            step = -torch.cholesky_solve(slope[:, None], factor).squeeze(1)
            decrement = -float(slope @ step)
            length = 1.0
            for _ in range(_SHORTER):
                there = self._value(theta + length * step)
                if there <= value - 0.1 * length * decrement:
                    break
                length /= 2
            else:
                break
            theta, value = theta + length * step, there
            if decrement <= _CENTRED:
                break
        return theta

    def _slacks(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """C_jΘ (J, q), radius² − ‖C_jΘ‖² (J,), and −L*(Θ) − least."""
        at = self.cuts @ theta
        worth = -(0.5 * theta.square() / self.weight + theta * self.target).sum()
        return at, self.radius**2 - at.square().sum(1), worth - self.least

    def _value(self, theta: Tensor) -> float:
        _, room, worth = self._slacks(theta)
        inside = bool((room > 0).all()) and float(worth) > 0
        return -float(worth.log() + room.log().sum()) if inside else float("inf")

    def _model(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient (n·c,) and Hessian (n·c, n·c)."""
        at, room, worth = self._slacks(theta)
        pull = (at[:, None] @ self.cuts).squeeze(1) * (2 / room)[:, None]  # (J, n·c)
        falls = theta / self.weight + self.target  # of −worth
        flat = self.cuts * (2 / room).sqrt()[:, None, None]
        flat = flat.flatten(0, 1)
        hessian = flat.T @ flat + pull.T @ pull + torch.outer(falls, falls) / worth.square()
        hessian.diagonal().add_(1 / (self.weight * worth))
        return pull.sum(0) + falls / worth, hessian
