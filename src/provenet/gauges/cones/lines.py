"""ReLU with the 1- or ∞-norm for first layers and the 1-norm for second ones: ½ Σ_j (‖u_j‖_C² + ‖v_j‖₁²), u_j in the
cones (BM Lemma 3.1, Thm B.1).

A neuron writes to one output, so that the polar is the largest over the columns g of G_k and both signs of

    max{gᵀu : ‖u‖_C ≤ 1, Ku ≥ 0} = min{‖g + Kᵀλ‖_{C*} : λ ≥ 0},

a linear program; whatever λ ≥ 0 it returns proves a bound.  With R other than 1 the maximum is of a convex function
over a polytope, of which no good bound is known: such norms are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from provenet import deadline
from provenet.cones import Table
from provenet.gauges.base import NOTHING, Asked, Bounds, Gauge, R_co, RegionGauge
from provenet.gauges.prox.mixed import LineNorm, dual, norms
from provenet.variable import Factors, Stack


class Pull(NamedTuple):
    """upper ≥ max gᵀu, and a u of the cone with ‖u‖_C ≤ 1."""

    upper: float
    u: np.ndarray


@dataclass(frozen=True)
class ConeLines(RegionGauge[R_co]):
    """first: the norm C, 1 or ∞."""

    first: float = 1.0

    def within(self, basis: Tensor) -> None:  # type: ignore[override]
        """Only the 2-norm is the same in every orthonormal basis."""
        return

    def relaxed(self, outputs: int) -> Gauge:
        return LineNorm(self.first, 1.0)

    def penalty(self, factors: Factors) -> Tensor:
        return 0.5 * (norms(factors.left, self.first).square().sum() + norms(factors.right, 1).square().sum())

    def rounding(self, p: int, q: int) -> float:
        """‖u‖₂ ≤ √p‖u‖_∞, and the 1-norm is not smaller than the 2-norm."""
        return (1.0 + self.region.doubt) * math.sqrt(p if self.first == math.inf else 1)

    def polar(self, stack: Stack) -> Bounds:
        lower, upper, _, _ = self.pulls(stack, each=True)
        return Bounds(lower, upper)

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        lower, upper, _, _ = self.pulls(stack, each=False)
        return Bounds(lower, upper)

    def pulls(self, stack: Stack, each: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Bounds of the polars (P,), and unit (u, v), (P, p) and (P, q), that attain the lower ones; not ``each``:
        gates that cannot have the largest keep the bound that knows no cones."""
        rough = LineNorm(self.first, 1.0).polar(stack).upper
        lower, upper = torch.zeros_like(rough), rough.clone()
        u, v = torch.zeros_like(stack[:, :, 0]), torch.zeros_like(stack[:, 0])
        for k in torch.argsort(rough, descending=True).tolist():
            if deadline.over() or (not each and float(rough[k]) <= float(lower.max())):
                break
            lower[k], upper[k], u[k], v[k] = self._of_gate(stack[k], k, float(rough[k]))
        return lower, upper, u, v

    def _of_gate(self, G: Tensor, gate: int, rough: float) -> tuple[float, float, Tensor, Tensor]:
        table: Table = self.region  # type: ignore[assignment]
        alive = torch.linalg.vector_norm(table.rows, dim=1) > 0
        K = (table.rows * table.signs[gate][:, None])[alive].numpy()
        best, most, u, v = 0.0, 0.0, torch.zeros_like(G[:, 0]), torch.zeros_like(G[0])
        for j in range(G.shape[1]):
            for sign in (1.0, -1.0):
                found = pull_within(sign * G[:, j].numpy(), K, self.first)
                most = max(most, found.upper)
                value = sign * float(G[:, j] @ torch.from_numpy(found.u))
                if value > best:
                    best, u, v = value, torch.from_numpy(found.u), torch.zeros_like(v)
                    v[j] = sign
        return best, min(most, rough), u, v


def pull_within(g: np.ndarray, K: np.ndarray, norm: float) -> Pull:
    """max gᵀu over ‖u‖ ≤ 1 and Ku ≥ 0, for unit rows K (N, p)."""
    N, p = K.shape
    size = max(float(np.abs(g).max()), np.finfo(float).tiny)
    if norm == math.inf:
        found = linprog(-g / size, A_ub=-K, b_ub=np.zeros(N), bounds=(-1, 1), method="highs")
    else:  # u = a − b
        walls = np.vstack([np.hstack([-K, K]), np.ones((1, 2 * p))])
        cost = np.concatenate([-g, g]) / size
        found = linprog(cost, A_ub=walls, b_ub=np.r_[np.zeros(N), 1.0], bounds=(0, None), method="highs")
    other = dual(norm)
    free = float(np.linalg.norm(g, other))
    if found.x is None or found.ineqlin is None:
        return Pull(free * (1 + 1e-14 * p), np.zeros(p))
    push = size * np.maximum(-np.asarray(found.ineqlin.marginals)[:N], 0.0)
    terms = 4 * (N + p + 8) * np.finfo(float).eps * (np.linalg.norm(g, 1) + p * push.sum())
    upper = min(float(np.linalg.norm(g + K.T @ push, other)), free) + terms
    u = found.x if norm == math.inf else found.x[:p] - found.x[p:]
    return Pull(upper, u / max(float(np.linalg.norm(u, norm)), 1.0))
