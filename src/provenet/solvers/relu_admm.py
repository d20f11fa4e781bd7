"""ADMM for ReLU programs with one output, the cones split off: the plain fallback.

    min ½‖Mz − Y‖² + β Σ‖y_k‖   with   y = z,  s_k = K_k z_k ≥ 0

over z = (w⁺_k, w⁻_k), the neurons with v = ±1.  Both copies share one system: K_kᵀK_k = RᵀR for every k, R the unit
rows, so that with S = (I + RᵀR)⁻¹ its kernel is M S Mᵀ = 2 (X S Xᵀ) ∘ (DDᵀ), n × n.  The copies are never feasible:
what is returned is y projected on the cones, at its best amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.cones import Cones
from provenet.gauges import ConeNuclear
from provenet.operators import MLPOperator
from provenet.problem import Program
from provenet.solvers.bm_amplitudes import best_amplitudes
from provenet.solvers.bm_factors import place
from provenet.solvers.frank_wolfe import balanced
from provenet.solvers.loop import Method, Point
from provenet.solvers.relu_faces import feasible
from provenet.variable import Factors

_RELAX = 1.6
_BALANCE_EVERY = 20
_FAR = 5.0  # residuals further apart than this factor move ρ


@dataclass(frozen=True)
class ReluADMMState:
    """y, dual_y (2, P, p): both signs of v.  s, dual_s (2, P, n): the cone rows.  factor: Cholesky, (n, n)."""

    y: Tensor
    s: Tensor
    dual_y: Tensor
    dual_s: Tensor
    rho: float
    inverse: Tensor
    kernel: Tensor
    factor: Tensor
    steps: int = 0


@dataclass(frozen=True)
class ReluADMM(Method[ReluADMMState]):
    name = "admm"
    check_every = 25
    max_steps = 20_000

    def refuses(self, program: Program) -> str | None:
        op = program.operator
        if not isinstance(program.gauge, ConeNuclear) or program.gauge.cones is None:
            return "the program has no table of cones."
        if not isinstance(op, MLPOperator) or op.q != 1 or not program.loss.quadratic:
            return "with cones it is for an MLP with one output and the squared loss; take 'bm' or 'frank_wolfe'."
        return None

    def memory(self, program: Program) -> int:
        op = program.operator
        n = op.output_shape[0]
        return op.dtype.itemsize * (3 * n * n + 12 * op.n_gates * (n + op.p))

    def init(self, program: Program, start: Factors | None) -> ReluADMMState:
        op, cones = _parts(program)
        gram = cones.rows.T @ cones.rows
        gram.diagonal().add_(1.0)
        inverse = torch.linalg.inv(gram)
        kernel = 2 * (op.X @ inverse @ op.X.T) * (op.pattern @ op.pattern.T)
        y = torch.zeros(2, op.n_gates, op.p, dtype=op.dtype)
        if start is not None:
            sign = (start.right[:, 0] < 0).long()
            y.index_put_((sign, start.gate), start.left * start.right.abs(), accumulate=True)
        s = _slack(cones, y)
        rho = 0.1 * float(kernel.diagonal().mean())
        return ReluADMMState(
            y, s, torch.zeros_like(y), torch.zeros_like(s), rho, inverse, kernel, _factor(program, kernel, rho)
        )

    def step(self, program: Program, state: ReluADMMState) -> ReluADMMState:
        op, cones = _parts(program)
        pull = (state.y - state.dual_y) + ((state.s - state.dual_s) * cones.signs) @ cones.rows
        free = pull @ state.inverse
        right = program.loss.target - _predicted(op, free)
        t = torch.cholesky_solve(right, state.factor)
        back = op.adjoint(t)[:, :, 0] / state.rho  # (P, p)
        z = free + torch.stack([back, -back]) @ state.inverse
        slack = _slack(cones, z)
        near_y = _RELAX * z + (1 - _RELAX) * state.y
        near_s = _RELAX * slack + (1 - _RELAX) * state.s
        moved = near_y + state.dual_y
        norm = torch.linalg.vector_norm(moved, dim=2, keepdim=True)
        y = moved * (1 - program.beta / state.rho / norm.clamp_min(1e-300)).clamp_min(0)
        s = (near_s + state.dual_s).clamp_min(0)
        after = replace(
            state,
            y=y,
            s=s,
            dual_y=moved - y,
            dual_s=near_s + state.dual_s - s,
            steps=state.steps + 1,
        )
        if after.steps % _BALANCE_EVERY:
            return after
        primal = _length(z - y, slack - s)
        return _rebalanced(program, after, primal, state.rho * _length(y - state.y, s - state.s))

    def point(self, program: Program, state: ReluADMMState) -> Point:
        _, cones = _parts(program)
        sign, gate = torch.nonzero(state.y.abs().amax(2) > 0, as_tuple=True)
        left = feasible(cones, state.y[sign, gate], gate).point
        right = (1.0 - 2.0 * sign).to(left.dtype)[:, None]
        at = best_amplitudes(program, place(program, balanced(Factors(left, right, gate))))
        return Point(at.prediction, float(at.factors.penalty()), lambda: at.factors)


def _parts(program: Program) -> tuple[MLPOperator, Cones]:
    op, gauge = program.operator, program.gauge
    assert isinstance(op, MLPOperator)
    assert isinstance(gauge, ConeNuclear)
    assert gauge.cones is not None
    return op, gauge.cones


def _slack(cones: Cones, z: Tensor) -> Tensor:
    """K_k z_k for both signs, (2, P, n)."""
    return (z @ cones.rows.T) * cones.signs


def _predicted(op: MLPOperator, z: Tensor) -> Tensor:
    return op.forward((z[0] - z[1])[:, :, None])


def _factor(program: Program, kernel: Tensor, rho: float) -> Tensor:
    """Cholesky of W⁻¹ + M S Mᵀ/ρ, W the samples' weights."""
    system = kernel / rho
    system.diagonal().add_(1 / program.loss.sample_weight.flatten())
    return torch.linalg.cholesky(system)


def _rebalanced(program: Program, state: ReluADMMState, primal: float, dual: float) -> ReluADMMState:
    """ρ moved towards equal residuals; the scaled multipliers follow."""
    if max(primal, dual) <= _FAR * min(primal, dual):
        return state
    ratio = min(max((primal / max(dual, 1e-300)) ** 0.5, 0.1), 10.0)
    rho = state.rho * ratio
    return replace(
        state,
        rho=rho,
        dual_y=state.dual_y / ratio,
        dual_s=state.dual_s / ratio,
        factor=_factor(program, state.kernel, rho),
    )


def _length(*parts: Tensor) -> float:
    return float(torch.stack([torch.linalg.vector_norm(part) for part in parts]).norm())
