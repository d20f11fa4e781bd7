"""The best dual point among mixtures of those a run has seen.

Gradients Θ_t are dual points, and so are their mixtures: for Θ = Σ b_t Θ_t with b ≥ 0, Σb ≤ 1, A_k*Θ = Σ b_t A_k*Θ_t is
known already and Θ is in the domain of L*, which is convex and holds zero.  So

    max_b  −L*(Σ b_t Θ_t)    s.t.  ‖Σ b_t A_k*Θ_t‖ ≤ β for every gate k

needs no pass over the data: its few unknowns are found by cutting planes, uᵀ(Σ b_t A_k*Θ_t)v ≤ β for the top singular
pairs (u, v) of gates that are beyond β.  What is found is a guess: whoever uses it bounds its polars anew.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from provenet import batches, deadline
from provenet.gauges.spectral import leading_pairs, spectral_uppers
from provenet.polar import is_large
from provenet.problem import Program
from provenet.variable import Stack

_MOST = 10  # points that are mixed
_SHARE = 16  # of a limit of memory, one part in so many is for them
_ROUNDS = 6  # of cutting planes
_CUTS = 96  # new ones a round
_NEAR = 0.95  # of β: gates as close get cuts from the first round on
_CLOSE = 1e-5  # beyond β, relatively: near enough
_STEPS = 30  # of one program with the cuts so far


class Mixture:
    """The last few points Θ (n, …, c) with their A_k*Θ (P, p, q), in float32: enough to choose by."""

    def __init__(self, program: Program):
        self.program = program
        self._points: list[tuple[Tensor, Stack]] = []
        target = program.loss.target  # as if one process had them all: each must keep as many
        one = target[0].nbytes * program.operator.shards.n + 4 * math.prod(program.operator.stack_shape)
        self._most = min(_MOST, max(1, min(batches.BASIS, batches.share(_SHARE)) // one))

    @staticmethod
    def serves(program: Program) -> bool:
        return program.gauge.spectral and not is_large(program.operator)

    @property
    def points(self) -> list[tuple[Tensor, Stack]]:
        """Θ and −A*Θ of each, the last one last."""
        return list(self._points)

    def add(self, theta: Tensor, pull: Stack | None) -> None:
        """A gradient Θ, with −A*Θ."""
        if pull is not None:
            self._points = [*self._points, (theta, pull.to(torch.float32))][-self._most :]

    def better(self, known: float, worth: float) -> Tensor | None:
        """The best mixture's Θ, where it promises to prove more than ``known`` by at least ``worth``."""
        if len(self._points) < 2 or deadline.over():
            return None
        share, promised = _best(self.program, *(list(part) for part in zip(*self._points, strict=True)))
        if not promised >= known + worth:
            return None
        thetas, pulls = (list(part) for part in zip(*self._points, strict=True))
        theta = _Points(self.program, thetas).mixed(share)
        self.add(theta, torch.tensordot(share.to(torch.float32), torch.stack(pulls), 1))
        return theta


def _best(program: Program, thetas: list[Tensor], pulls: list[Stack]) -> tuple[Tensor, float]:
    """(b, the bound it promises), b (T,)."""
    bound, stacks = _Bound(program, _Points(program, thetas)), torch.stack(pulls)
    b = torch.zeros(len(thetas), dtype=torch.float64)
    b[-1] = 1.0
    best, promised = b, -math.inf
    cuts = b.new_zeros(0, len(thetas))
    for turn in range(_ROUNDS):
        sigma, new = _cuts(stacks, b, program.beta, _NEAR if turn == 0 else 1.0)
        feasible = b * min(1.0, program.beta / max(sigma, 1e-300), 1.0 / max(float(b.sum()), 1e-300))
        lower = -bound(feasible)[0]
        if lower > promised:
            best, promised = feasible, lower
        if (turn > 0 and sigma <= (1 + _CLOSE) * program.beta) or deadline.over():
            break
        cuts = torch.cat([cuts, new])
        found = _within(bound, cuts / program.beta, feasible)
        if found is None:
            break
        b = found
    return best, promised


def _cuts(stacks: Tensor, b: Tensor, beta: float, near: float) -> tuple[float, Tensor]:
    """The largest spectral norm at b, and uᵀA_k*Θ_t v (m, T) for the top pairs of gates beyond ``near``·β there."""
    mixed = torch.tensordot(b.to(stacks.dtype), stacks, 1)
    upper = spectral_uppers(mixed)
    some = torch.nonzero(upper > near * beta).flatten()
    if len(some) == 0:
        return float(upper.max()), stacks.new_zeros(0, len(stacks), dtype=torch.float64)
    sigma, left, right = leading_pairs(mixed[some], min(3, *mixed.shape[1:]))
    gate, rank = torch.nonzero(sigma > near * beta, as_tuple=True)
    order = torch.argsort(sigma[gate, rank], descending=True)[:_CUTS]
    gate, rank = gate[order], rank[order]
    slopes = torch.einsum("mp,tmpq,mq->mt", left[gate, rank], stacks[:, some[gate]], right[gate, rank])
    return float(sigma.max()), slopes.to(torch.float64)


class _Points:
    """Θ_t of this process's samples, shard by shard: sums are then the same whoever has which."""

    def __init__(self, program: Program, thetas: list[Tensor]):
        self.shape, self.shards = thetas[0].shape, program.operator.shards
        self._parts = [torch.stack([theta[rows].flatten() for theta in thetas]) for rows in self.shards.slices]

    def mixed(self, b: Tensor) -> Tensor:
        """Σ b_t Θ_t."""
        return torch.cat([b @ part for part in self._parts]).view(self.shape)

    def along(self, slope: Tensor) -> Tensor:
        """⟨Θ_t, R⟩ over the samples of all processes, (T,)."""
        rows = (slope[rows].flatten() for rows in self.shards.slices)
        return self.shards.add(part @ own for part, own in zip(self._parts, rows, strict=True))


class _Bound:
    """L*(Σ b_t Θ_t) and its gradient in b."""

    def __init__(self, program: Program, points: _Points):
        self.loss, self.points = program.loss, points

    def __call__(self, b: Tensor) -> tuple[float, Tensor]:
        theta = self.points.mixed(b)
        with torch.enable_grad():
            theta.requires_grad_()
            value = self.loss.conjugate(theta)
            if not bool(torch.isfinite(value)) or not value.requires_grad:
                return math.inf, torch.zeros_like(b)
            (slope,) = torch.autograd.grad(value, theta)
        return float(value.detach()), self.points.along(slope)


def _within(bound: _Bound, cuts: Tensor, start: Tensor) -> Tensor | None:
    """argmin of the conjugate over b ≥ 0, Σb ≤ 1, cuts·b ≤ 1; None where it is not found."""
    rows = np.vstack([cuts.numpy(), np.ones((1, len(start)))])
    scale = max(abs(bound(start)[0]), 1e-300)

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = bound(torch.from_numpy(np.clip(b, 0.0, 1.0)))
        return value / scale, slope.numpy() / scale

    found = minimize(
        objective,
        start.numpy(),
        jac=True,
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "ineq", "fun": lambda b: 1.0 - rows @ b, "jac": lambda b: -rows},
        method="SLSQP",
        options={"maxiter": _STEPS, "ftol": 1e-10},
    )
    return torch.from_numpy(found.x).clamp(0.0, 1.0) if np.isfinite(found.x).all() else None
