"""The copositive program of ReLU blocks with the squared loss, relaxed (CP eq. 17, 19, 20), by an interior point.

    φ(T) = ½ tr(Yᵀ K⁻¹ Y) + β²/2 Σ_k tr T_k,   K = I + Σ_k M_k T_k M_kᵀ,   T_k ⪰ 0,  K_k T_k K_kᵀ ≥ 0

as in `ipm`, with the walls aᵀTb ≥ 0 between facets a, b of each cone added.  (CP's U_i is our T_i; its regulariser is
β²/2 Σ tr T_i.)  The minimum is at most p*: the cone {T ⪰ 0, KTKᵀ ≥ 0} contains every Σ uuᵀ with Ku ≥ 0.  In the plane,
and where no cone has more than four facets, it contains nothing else and the minimum is p* (not for all d ≤ 4, as CP
§4.2 has it).

T_k = Σ uuᵀ gives the neurons: βT_kA_k/β = Z_k = Σ_j u_jv_jᵀ with v_j = A_kᵀu_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import DualPoint
from provenet.cones import Table
from provenet.gauges import ConeGauge
from provenet.operators import Operator
from provenet.problem import Program
from provenet.solvers.interior.blocks import LinAlgError, Scaling
from provenet.solvers.interior.copositive.bound import proven
from provenet.solvers.interior.copositive.newton import Between, advance
from provenet.solvers.interior.copositive.rounding import neurons
from provenet.solvers.interior.copositive.walls import Walls, most_walls
from provenet.solvers.interior.newton import centre_at
from provenet.solvers.interior.rows import Fit, prepare
from provenet.solvers.interior.start import cold_scale
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, GATED_ROWS, SEPARATE, SQUARED, TABLE
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_REFINEMENTS = 3
_SOLVED = 1e-10  # of the targets' square: the complementarity at which the relaxation counts as solved
_DUST = 1e-5  # of the largest: interior points leave a dust of neurons this small


@dataclass(frozen=True)
class CopositiveState:
    fit: Fit
    walls: Walls
    at: Between | None  # None where there is no step to take
    given: Factors | None  # before the first step
    stuck: bool = False


@dataclass(frozen=True)
class Copositive(Method[CopositiveState]):
    """max_unknowns: P·p(p+1)/2; the Newton matrix has their square."""

    max_unknowns: int = 4000

    name = family = "copositive"
    needs = (TABLE, SQUARED, SEPARATE, GATED_ROWS, DOUBLE)
    check_every = 1
    patience = 15
    max_steps = 200

    def declines(self, program: Program) -> str | None:
        unknowns = _unknowns(program.operator)
        if unknowns > self.max_unknowns:
            return f"the copositive program would have {unknowns} unknowns, more than max_unknowns={self.max_unknowns}."
        return None

    def memory(self, program: Program[ConeGauge[Table]]) -> int:
        op = program.operator
        walls = 2 * op.n_gates * op.p * most_walls(program.gauge.region)
        unknowns, size, samples = _unknowns(op), op.n_gates * op.p, op.output_shape[0]
        n = min(samples, size)
        return op.dtype.itemsize * (walls + 3 * samples * size + 6 * n * n + 2 * op.q * unknowns * n + 4 * unknowns**2)

    def offer(self, task: Task) -> Offer:
        """In the plane its neurons are the optimum's; elsewhere it is a bound, for who asks."""
        op = task.program.operator
        return Offer(self.memory(task.program), 0.0, _work(op), 3 * task.decades, starts=op.p <= 2)

    def ends(self, program: Program) -> bool:
        return program.operator.p <= 2

    def init(self, program: Program[ConeGauge[Table]], start: Factors | None) -> CopositiveState:
        cones = program.gauge.region
        fit, walls = prepare(program, left=True), Walls.of(cones)
        given = start or program.nobody
        if program.beta >= program.beta_max or not deadline.affords(walls.work()):
            return CopositiveState(fit, walls, None, given)
        try:
            at = _cold(program, fit, walls, walls.centres(cones.inside))
        except LinAlgError:  # β is below what rounding lets us see
            return CopositiveState(fit, walls, None, given)
        return CopositiveState(fit, walls, at, given)

    def step(self, program: Program[ConeGauge[Table]], state: CopositiveState) -> CopositiveState:
        assert state.at is not None
        if not deadline.affords(state.walls.work() + _work(program.operator)):
            return replace(state, stuck=True)
        try:
            at = advance(state.fit, state.walls, state.at, program.beta)
        except LinAlgError:  # rounding has the upper hand
            return replace(state, given=None, stuck=True)
        # beyond the plane the relaxation is all there is to solve, and its neurons never close the gap
        solved = program.operator.p > 2 and at.complementarity * at.push.numel() < _SOLVED * float(
            state.fit.target.square().sum()
        )
        return replace(state, at=at, given=None, stuck=solved)

    def finished(self, state: CopositiveState) -> bool:
        return state.at is None or state.stuck

    def point(self, program: Program[ConeGauge[Table]], state: CopositiveState) -> Point:
        own = None
        if state.given is not None:
            factors = state.given
        else:
            assert state.at is not None
            factors = _settled(program, state, state.at)
            own = relaxed_bound(program, state.fit, state.walls, state.at, thoroughly=state.stuck)
        return Point.of(factors, program.operator.forward_factors(factors), own)


def _unknowns(op: Operator) -> int:
    return op.n_gates * op.p * (op.p + 1) // 2


def _work(op: Operator) -> float:
    """Multiply-adds of a step, but for the walls' part: the Newton matrix of the fit, and its factorisation."""
    unknowns, n = float(_unknowns(op)), min(op.output_shape[0], op.n_gates * op.p)
    return 0.5 * op.q * unknowns * n * (unknowns + n) + unknowns**3 / 3


def _cold(program: Program[ConeGauge[Table]], fit: Fit, walls: Walls, middle: Tensor) -> Between:
    """T = t·(the analytic centre of each cone) and R, λ centred there, R + Σ λC = β²I; t by ‖A_kᵀu‖ (`cold_scale`), u
    averaged over the centre."""
    beta, m = program.beta, middle.shape[1]
    middle = middle / middle.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    half = torch.linalg.cholesky(middle)
    t, _ = cold_scale(
        program, fit.rows.scaled(half), fit.target, lambda a: float(torch.linalg.vector_norm(a, dim=(1, 2)).max())
    )
    # at the analytic centre T⁻¹ + Σ C/s = cI, and ⟨T, cI⟩ = m + the number of walls
    c = (m + walls.there.sum(1)).to(middle.dtype)
    mu = t * beta**2 / c
    R = (mu / t)[:, None, None] * torch.cholesky_inverse(half)
    slack = torch.where(walls.there, t * walls.slack(middle), 1.0)
    push = torch.where(walls.there, mu[:, None] / slack, 0.0)
    return Between(centre_at(fit, Scaling.between(t * middle, R)), slack, push)


def relaxed_bound(
    program: Program[ConeGauge[Table]], fit: Fit, walls: Walls, at: Between, thoroughly: bool = False
) -> DualPoint:
    """A lower bound of p* from W and the multipliers, whatever their accuracy; ``thoroughly``: see `proven`."""
    theta = fit.gradient(at.centre.W, program.loss.target)
    return proven(program, theta, walls.combined(at.push), at.push.sum(1), walls.a.shape[1], thoroughly)


def _settled(program: Program[ConeGauge[Table]], state: CopositiveState, at: Between) -> Factors:
    """The neurons of T, and W as their residual: what rounding did to it, and the dust of neurons left out, is made up
    for in the second layers of the others."""
    scaling = at.centre.scaling
    u, gate = neurons(scaling.G * scaling.lam.sqrt()[:, None, :], state.walls.normals, program.gauge.region)
    size = u.square().sum(1)
    keep = size > _DUST * size.max()
    u, gate = u[keep], gate[keep]

    def second_layer(a: Tensor) -> Tensor:
        A = scaling.dual @ a  # A_k = G⁻ᵀ(GᵀA_k)
        return torch.bmm(u[:, None, :], A[gate])[:, 0]

    factors = Factors(u, second_layer(at.centre.a), gate)
    for _ in range(_REFINEMENTS):
        excess = state.fit.residual(program.operator.forward_factors(factors)) - at.centre.W
        pull = at.centre.rows.adjoint(torch.cholesky_solve(excess, at.centre.L))
        factors = replace(factors, right=factors.right + second_layer(pull))
    return factors.balanced()
