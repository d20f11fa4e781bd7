"""The copositive relaxation (CP eq. 19) by projected gradient, accelerated: what a first-order method makes of it.

    φ(T) = ½ tr(Yᵀ K⁻¹ Y) + β²/2 Σ_k tr T_k,   K = I + Σ_k M_k T_k M_kᵀ,   T_k ⪰ 0,  aᵀT_k b ≥ 0 for facets a, b

    ∇_k φ = ½(β²I − A_kA_kᵀ),  A_k = M_kᵀK⁻¹Y;      T ← Π(T − η∇φ(T))

The projection Π of S has no formula; its dual has no constraint but λ ≥ 0: min ½‖(S + Σ λ_l C_l)₊‖², itself by
accelerated projected gradient, begun where the last one ended.  Its multipliers, over η, are those of the relaxation:
2Σλ_lC_l/η is the lift with which every step proves a bound of p* (`bound.proven`), however far the projection got.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import Table
from provenet.gauges import ConeGauge
from provenet.operators import Operator
from provenet.problem import Program
from provenet.solvers.cones.frank_wolfe import fully_corrected
from provenet.solvers.interior.blocks import LinAlgError
from provenet.solvers.interior.copositive.bound import proven
from provenet.solvers.interior.copositive.rounding import neurons
from provenet.solvers.interior.copositive.walls import Walls, most_walls
from provenet.solvers.interior.rows import DenseRows, Fit, prepare
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, GATED_ROWS, SEPARATE, SQUARED, TABLE
from provenet.variable import Factors, Stack

_INNER = 60  # steps of a projection
_FEASIBLE = 1e-8  # of T's size: what a wall may be violated by
_LONGER, _SHORTER, _TRIES = 1.5, 0.5, 40  # of η: after every step, and where it was too long
_WALLS = 2**25  # numbers of them, all gates together


@dataclass(frozen=True)
class GradientState:
    """T and the ``ahead`` that momentum makes of it (P, m, m), the multipliers ``push`` (P, L) of the last projection,
    η, and the momentum's own count.  given: before the first step."""

    fit: Fit
    walls: Walls
    T: Tensor
    ahead: Tensor
    push: Tensor
    eta: float
    momentum: float
    given: Factors | None


@dataclass(frozen=True)
class ProjectedGradient(Method[GradientState]):
    """check_every: steps between two looks at the gap."""

    check_every: int = 20

    name, family = "copositive_gradient", "copositive"
    needs = (TABLE, SQUARED, SEPARATE, GATED_ROWS, DOUBLE)
    patience = 50
    max_steps = 5_000

    def declines(self, program: Program[ConeGauge[Table]]) -> str | None:
        op = program.operator
        numbers = op.n_gates * op.p * most_walls(program.gauge.region)
        if numbers > _WALLS:
            return (
                f"the walls of its cones are {numbers:.2g} numbers, more than {_WALLS:.1g}; 'copositive_dual' adds few."
            )
        return None

    def memory(self, program: Program[ConeGauge[Table]]) -> int:
        op = program.operator
        walls = 2 * op.n_gates * op.p * most_walls(program.gauge.region)
        samples, size = op.output_shape[0], op.n_gates * op.p
        return op.dtype.itemsize * (2 * walls + 3 * samples * size + 4 * samples**2 + 8 * size * op.p)

    def init(self, program: Program[ConeGauge[Table]], start: Factors | None) -> GradientState:
        fit, walls = prepare(program, left=True), Walls.of(program.gauge.region)
        T = torch.zeros(program.operator.n_gates, program.operator.p, program.operator.p, dtype=torch.float64)
        eta = 1.0 / _bend(fit, program.operator)
        return GradientState(fit, walls, T, T, torch.zeros_like(walls.slack(T)), eta, 1.0, start or program.nobody)

    def step(self, program: Program[ConeGauge[Table]], state: GradientState) -> GradientState:
        fit, walls, beta = state.fit, state.walls, program.beta
        value, slope, _ = _looked_at(fit, state.ahead, beta)
        eta = _LONGER * state.eta
        for _ in range(_TRIES):
            T, push = projected(walls, state.ahead - eta * slope, state.push * (eta / state.eta))
            change = T - state.ahead
            promised = value + float((slope * change).sum()) + float(change.square().sum()) / (2 * eta)
            there = _looked_at(fit, T, beta)[0]
            if there <= promised + 1e-14 * abs(promised) or deadline.over():
                break
            eta *= _SHORTER
        # where the step turns against the last one, momentum has overshot and begins anew
        turned = float(((state.ahead - T) * (T - state.T)).sum()) > 0
        count = 1.0 if turned else 0.5 * (1 + (1 + 4 * state.momentum**2) ** 0.5)
        ahead = T if turned else T + (state.momentum - 1) / count * (T - state.T)
        return replace(state, T=T, ahead=ahead, push=push, eta=eta, momentum=count, given=None)

    def point(self, program: Program[ConeGauge[Table]], state: GradientState) -> Point:
        if state.given is not None:
            return Point.of(state.given, program.operator.forward_factors(state.given))
        _, _, W = _looked_at(state.fit, state.T, program.beta)
        theta = state.fit.gradient(W, program.loss.target)
        weight = 2 * state.push / state.eta
        own = proven(program, theta, state.walls.combined(weight), weight.sum(1), weight.shape[1])
        there = _network(program, state)
        return Point.of(there, program.operator.forward_factors(there), own)


def projected(walls: Walls, S: Tensor, push: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest T_k ⪰ 0 with aᵀT_kb ≥ 0 (P, m, m), for S (P, m, m), and the multipliers (P, L); ``push``: a guess."""
    bend = torch.linalg.matrix_norm(walls.vectors(), 2).square().clamp_min(1e-300)[:, None]
    push = push.clamp_min(0) * walls.there
    ahead, momentum = push, 1.0
    for _ in range(_INNER):
        T = _positive(S + walls.combined(ahead))
        slack = torch.where(walls.there, walls.slack(T), 0.0)
        moved = (ahead - slack / bend).clamp_min(0)
        count = 0.5 * (1 + (1 + 4 * momentum**2) ** 0.5)
        turned = ((ahead - moved) * (moved - push)).sum(1, keepdim=True) > 0
        ahead = torch.where(turned, moved, moved + (momentum - 1) / count * (moved - push))
        settled = float((moved - push).abs().max()) <= _FEASIBLE * float(moved.max())
        push, momentum = moved, 1.0 if bool(turned.any()) else count
        ahead = ahead.clamp_min(0)
        if (settled and float(slack.min()) >= -_FEASIBLE * float(T.abs().max())) or deadline.over():
            break
    return _positive(S + walls.combined(push)), push


def _positive(S: Tensor) -> Tensor:
    value, vectors = torch.linalg.eigh(0.5 * (S + S.mT))
    return (vectors * value.clamp_min(0)[:, None, :]) @ vectors.mT


def _looked_at(fit: Fit, T: Tensor, beta: float) -> tuple[float, Stack, Tensor]:
    """φ(T), its gradient (P, m, m) and K⁻¹Y; φ is infinite where momentum has left the positive matrices too far."""
    assert isinstance(fit.rows, DenseRows)
    columns = fit.rows.columns  # (P, p, n)
    n = columns.shape[2]
    K = torch.eye(n, dtype=T.dtype) + columns.reshape(-1, n).T @ (T @ columns).reshape(-1, n)
    L, failed = torch.linalg.cholesky_ex(0.5 * (K + K.T))
    eye = torch.eye(T.shape[1], dtype=T.dtype)
    if bool(failed):
        return float("inf"), beta**2 / 2 * eye.expand_as(T), fit.target
    W = torch.cholesky_solve(fit.target, L)
    A = columns @ W
    value = 0.5 * float((fit.target * W).sum()) + 0.5 * beta**2 * float(T.diagonal(dim1=1, dim2=2).sum())
    return value, 0.5 * (beta**2 * eye - A @ A.mT), W


def _bend(fit: Fit, op: Operator) -> float:
    """About the largest curvature of φ at zero: ⟨dT, ∇²φ dT⟩ = ‖Σ M_k dT_k M_kᵀY‖²."""
    assert isinstance(fit.rows, DenseRows)
    size = torch.linalg.matrix_norm(fit.rows.columns, 2).square().max()
    return max(float(size.square() * torch.linalg.matrix_norm(fit.target, 2).square()) / max(op.n_gates, 1), 1e-300)


def _network(program: Program[ConeGauge[Table]], state: GradientState) -> Factors:
    """Neurons along T's factors, with their best second layers."""
    value, vectors = torch.linalg.eigh(state.T)
    root = vectors * value.clamp_min(0).sqrt()[:, None, :]
    alive = torch.nonzero(root.flatten(1).any(1)).flatten()
    if not len(alive):
        return program.nobody
    try:
        u, gate = neurons(root[alive], state.walls.normals[alive], program.gauge.region.restrict(alive))
    except LinAlgError:
        return program.nobody
    atoms = Factors(u, u.new_zeros(len(u), program.operator.q), alive[gate])
    return fully_corrected(program, program.nobody, atoms.with_unit_left()).factors
