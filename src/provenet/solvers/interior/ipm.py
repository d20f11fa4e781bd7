"""The variational interior point, for the squared loss and few unknowns.

With ‖Z‖_* = min_{S≻0} ½ tr(ZᵀS⁻¹Z) + ½ tr S and T = S/β, eliminating Z leaves a smooth convex program in small
blocks T_k alone (CP (17) with the PSD cone in place of the copositive one):

    φ(T) = ½ tr(Yᵀ K⁻¹ Y) + β²/2 Σ_k tr T_k,     K = I + Σ_k M_k T_k M_kᵀ   (n × n, shared by all outputs)
    W = K⁻¹ Y,  A_k = M_kᵀ W,  2∇_k φ = β² I − A_k A_kᵀ,  Z_k = T_k A_k

T_k is p × p (left form) or, for one output, a number (right form, multiple kernel learning: 2∇_k φ = β² − ‖A_k‖²).
T_k ⪰ 0, R_k = 2∇_k φ ⪰ 0 and T_k R_k = μI are followed to μ = 0 (`newton`).  W is the dual point of the
certificate and R_k ⪰ 0 says that it is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from provenet.operators import Operator
from provenet.problem import Program
from provenet.solvers.interior.blocks import LinAlgError
from provenet.solvers.interior.newton import Centre, advance
from provenet.solvers.interior.rows import Fit, block_size, prepare
from provenet.solvers.interior.start import cold_centre, warm_centre
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, GATED_ROWS, NUCLEAR, SQUARED
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors, factorise

_CALLS = 2e7  # what the calls of a step take, however few its unknowns


@dataclass(frozen=True)
class IPMState:
    fit: Fit
    centre: Centre | None  # None where there is no step to take: Z = 0 is optimal, or β is too small to begin
    given: Factors | None  # before the first step: the start, or the zero network
    stuck: bool = False


@dataclass(frozen=True)
class IPM(Method[IPMState]):
    """max_unknowns: P·p(p+1)/2 of the left form, P of the right; the Newton matrix has their square."""

    max_unknowns: int = 4000

    name = "ipm"
    needs = (SQUARED, NUCLEAR, GATED_ROWS, DOUBLE)
    check_every = 1
    patience = 15
    max_steps = 200

    def declines(self, program: Program) -> str | None:
        unknowns = unknowns_of(program.operator)
        if unknowns > self.max_unknowns:
            return f"the interior point would have {unknowns} unknowns, more than max_unknowns={self.max_unknowns}."
        return None

    def memory(self, program: Program) -> int:
        op = program.operator
        unknowns, size, samples = unknowns_of(op), op.n_gates * op.p, op.output_shape[0]
        n = min(samples, size)
        dense = 0 if op.q == 1 and samples <= size else 3 * samples * size
        return op.dtype.itemsize * (dense + 6 * n * n + 2 * op.q * unknowns * n + 3 * unknowns**2)

    def offer(self, task: Task) -> Offer:
        """A Newton matrix of the unknowns a step; few steps, whatever β is."""
        op = task.program.operator
        unknowns, n = unknowns_of(op), min(task.rows, op.n_gates * op.p)
        setup = 2 * task.rows * op.n_gates * op.p * n
        step = 1.2 * unknowns * n * (n + unknowns) * op.q + 0.6 * n**3 + _CALLS
        return Offer(self.memory(task.program), setup, step, 2 + task.decades, not task.only_neurons)

    def init(self, program: Program, start: Factors | None) -> IPMState:
        fit = prepare(program)
        if program.beta >= program.beta_max:
            return IPMState(fit, None, program.nobody)
        given = start or program.nobody
        try:
            centre = warm_centre(program, fit, given) if given.n_neurons else cold_centre(program, fit)
        except LinAlgError:  # β is below what rounding lets us see
            return IPMState(fit, None, given)
        return IPMState(fit, centre, given)

    def step(self, program: Program, state: IPMState) -> IPMState:
        assert state.centre is not None
        try:
            centre = advance(state.fit, state.centre, program.beta)
        except LinAlgError:  # a factorisation broke down: rounding has the upper hand
            return replace(state, given=None, stuck=True)
        return IPMState(state.fit, centre, None)

    def finished(self, state: IPMState) -> bool:
        return state.centre is None or state.stuck

    def point(self, program: Program, state: IPMState) -> Point:
        if state.given is not None:
            factors = state.given
        else:
            assert state.centre is not None
            factors = _settled(program, state.fit, state.centre)
        return Point.of(factors, program.operator.forward_factors(factors))


def unknowns_of(op: Operator) -> int:
    m = block_size(op)
    return op.n_gates * m * (m + 1) // 2


def _settled(program: Program, fit: Fit, centre: Centre) -> Factors:
    """The neurons of Z, with what rounding Z into neurons did to the residual taken out again.

    At small β the weights are large and cancel: their last digit matters to the residual W.  The correction goes
    into the layer whose partner spans all directions of a block.
    """
    factors = factorise(centre.stack)
    left, right = factors.left, factors.right
    excess = fit.residual(program.operator.forward_factors(factors)) - centre.W
    change = centre.response(excess)[factors.gate]  # (N, p, q)
    if left.shape[1] <= right.shape[1]:
        right = right + torch.bmm(left[:, None, :], change)[:, 0] / left.square().sum(1, keepdim=True)
    else:
        left = left + torch.bmm(change, right[:, :, None])[:, :, 0] / right.square().sum(1, keepdim=True)
    return Factors(left, right, factors.gate)
