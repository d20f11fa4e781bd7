"""The variational interior point, for the squared loss and few unknowns.

With ‖Z‖_* = min_{S≻0} ½ tr(ZᵀS⁻¹Z) + ½ tr S and T = S/β, eliminating Z leaves a smooth convex program in small
blocks T_k alone (CP (17) with the PSD cone in place of the copositive one):

    φ(T) = ½ tr(Yᵀ K⁻¹ Y) + β²/2 Σ_k tr T_k,     K = I + Σ_k M_k T_k M_kᵀ   (n × n, shared by all outputs)
    W = K⁻¹ Y,  A_k = M_kᵀ W,  2∇_k φ = β² I − A_k A_kᵀ,  Z_k = T_k A_k

T_k is p × p (left form) or, for one output, a number (right form, multiple kernel learning: 2∇_k φ = β² − ‖A_k‖²).
T_k ⪰ 0, R_k = 2∇_k φ ⪰ 0 and T_k R_k = μI are followed to μ = 0 (`ipm_newton`).  W is the dual point of the
certificate and R_k ⪰ 0 says that it is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from provenet.gauges import NuclearNorm
from provenet.losses import Squared
from provenet.operators import MLPOperator
from provenet.problem import Program
from provenet.solvers.ipm_blocks import Scaling, smallest_eigenvalue
from provenet.solvers.ipm_newton import Centre, advance, centre_at, outer
from provenet.solvers.ipm_rows import Fit, block_size, prepare
from provenet.solvers.loop import Method, Point
from provenet.variable import Factors

_START = 0.7  # the largest σ(A_k) at the start, as a share of β


@dataclass(frozen=True)
class IPMState:
    fit: Fit
    centre: Centre | None  # None: Z = 0 is optimal
    stuck: bool = False


@dataclass(frozen=True)
class IPM(Method[IPMState]):
    """max_unknowns: P·p(p+1)/2 of the left form, P of the right; the Newton matrix has their square."""

    max_unknowns: int = 4000

    name = "ipm"
    check_every = 1
    patience = 15
    max_steps = 200

    def refuses(self, program: Program) -> str | None:
        op = program.operator
        if not isinstance(program.loss, Squared):
            return f"the interior point needs the squared loss, not '{program.loss.name}'."
        if not isinstance(program.gauge, NuclearNorm):
            return f"the interior point needs the nuclear norm, not {type(program.gauge).__name__}."
        if not isinstance(op, MLPOperator):
            return f"the interior point does not know the rows of {type(op).__name__}."
        unknowns = _unknowns(op)
        if unknowns > self.max_unknowns:
            return f"the interior point would have {unknowns} unknowns, more than max_unknowns={self.max_unknowns}."
        return None

    def memory(self, program: Program) -> int:
        op = program.operator
        assert isinstance(op, MLPOperator)
        unknowns, size = _unknowns(op), op.n_gates * op.p
        n = min(op.n, size)
        dense = 0 if op.q == 1 and op.n <= size else 3 * op.n * size
        return op.dtype.itemsize * (dense + 4 * n * n + 2 * op.q * unknowns * n + 2 * unknowns**2)

    def init(self, program: Program, start: Factors | None) -> IPMState:
        fit = prepare(program)
        zero_is_optimal = program.beta >= program.beta_max
        return IPMState(fit, None if zero_is_optimal else _first_centre(program, fit))

    def step(self, program: Program, state: IPMState) -> IPMState:
        assert state.centre is not None
        try:
            return replace(state, centre=advance(state.fit, state.centre, program.beta))
        except torch.linalg.LinAlgError:  # a factorisation broke down: rounding has the upper hand
            return replace(state, stuck=True)

    def finished(self, state: IPMState) -> bool:
        return state.centre is None or state.stuck

    def point(self, program: Program, state: IPMState) -> Point:
        op = program.operator
        if state.centre is None:
            factors = Factors.empty(op.p, op.q, op.dtype)
        else:
            factors = _settled(program, state.fit, state.centre)
        return Point(op.forward_factors(factors), float(factors.penalty()), lambda: factors)


def _unknowns(op: MLPOperator) -> int:
    m = block_size(op)
    return op.n_gates * m * (m + 1) // 2


def _first_centre(program: Program, fit: Fit) -> Centre:
    """T = sI with s such that the largest σ(A_k) is about _START·β, and R = 2∇φ, kept away from zero."""
    op, beta = program.operator, program.beta
    assert isinstance(op, MLPOperator)
    m = block_size(op)
    eye = torch.eye(m, dtype=op.dtype).expand(op.n_gates, m, m)
    kernel = fit.rows.kernel(op.X.new_ones(op.n_gates, m))
    s = program.beta_max / beta / float(kernel.diagonal().mean())
    low, high = 0.0, float("inf")
    for _ in range(40):
        K = kernel * s
        K.diagonal().add_(1)
        A = fit.rows.adjoint(torch.cholesky_solve(fit.target, torch.linalg.cholesky(K)))
        excess = float(program.gauge.polar(A).upper.max()) / (_START * beta)
        if 0.6 <= excess <= 1.4:
            break
        if excess > 1:
            low, grown = s, s * min(excess**1.5, 100.0)
            s = grown if grown < high else (low * high) ** 0.5
        else:
            high, shrunk = s, s * max(excess, 0.01)
            s = shrunk if shrunk > low else (low * high) ** 0.5
    R = beta**2 * eye - outer(A, A, m)
    R = R + max(0.1 * beta**2 - smallest_eigenvalue(R), 0.0) * eye
    return centre_at(fit, Scaling.between(s * eye, R))


def _settled(program: Program, fit: Fit, centre: Centre) -> Factors:
    """The neurons of Z, with what rounding Z into neurons did to the residual taken out again.

    At small β the weights are large and cancel: their last digit matters to the residual W.  The correction goes
    into the layer whose partner spans all directions of a block.
    """
    factors = program.gauge.factorise(centre.stack)
    left, right = factors.left, factors.right
    excess = fit.residual(program.operator.forward_factors(factors)) - centre.W
    change = centre.response(excess)[factors.gate]  # (N, p, q)
    if left.shape[1] <= right.shape[1]:
        right = right + torch.bmm(left[:, None, :], change)[:, 0] / left.square().sum(1, keepdim=True)
    else:
        left = left + torch.bmm(change, right[:, :, None])[:, :, 0] / right.square().sum(1, keepdim=True)
    return Factors(left, right, factors.gate)
