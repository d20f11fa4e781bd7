"""ADMM for ReLU programs with one output: the plain fallback.

    min L(Σ_k A_k(w⁺_k − w⁻_k)) + β Σ_k ‖w⁺_k‖ + ‖w⁻_k‖   with   K_k w^±_k ≥ 0

The cones are split off together with the norms: the prox of both is the projection on the cone, shortened.  So this is
the ADMM of the other programs, on gates that come twice, with its kernel and its way of choosing ρ; and its sparse copy
is in the cones.  The point that is returned is that copy, at its best amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from provenet.gauges import ConeGauge
from provenet.gauges.cones.norm import ConeNorm
from provenet.operators.wrappers.signed import SignedOperator
from provenet.problem import Program
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import CONES, KERNEL
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.place import place
from provenet.solvers.stacks.admm import ADMM, ADMMState
from provenet.variable import Factors


@dataclass(frozen=True)
class ReluADMMState:
    """``pairs``: the program on pairs (gate, sign)."""

    pairs: Program[ConeNorm]
    admm: ADMMState


@dataclass(frozen=True)
class ReluADMM(Method[ReluADMMState]):
    """inner: the settings of the ADMM on pairs."""

    inner: ADMM = field(default_factory=ADMM)

    name = "admm"
    needs = (CONES, KERNEL)
    check_every = 10
    patience = 200  # its last digits come slowly where arrangements are nearly alike
    max_steps = 20_000

    def declines(self, program: Program[ConeGauge]) -> str | None:
        if program.operator.q != 1:
            return "its gauge has a prox only where a neuron has one output weight; take 'frank_wolfe' or 'bm'."
        return None

    def memory(self, program: Program[ConeGauge]) -> int:
        op = program.operator
        rows = program.gauge.region.rows.shape[0]
        return op.dtype.itemsize * (op.kernel_rows**2 + 2 * op.n_gates * (3 * rows + 20 * op.p)) + 2 * op.held_bytes

    def init(self, program: Program[ConeGauge], start: Factors | None) -> ReluADMMState:
        pairs = _pairs(program)
        if start is not None:
            sign = (start.right[:, 0] < 0).long()
            start = Factors(start.left, start.right.abs(), start.gate + sign * program.operator.n_gates)
        return ReluADMMState(pairs, self.inner.init(pairs, start))

    def step(self, program: Program[ConeGauge], state: ReluADMMState) -> ReluADMMState:
        return replace(state, admm=self.inner.step(state.pairs, state.admm))

    def point(self, program: Program[ConeGauge], state: ReluADMMState) -> Point:
        found, P = state.pairs.gauge.factorise(state.admm.a), program.operator.n_gates
        signed = torch.where(found.gate[:, None] < P, found.right, -found.right)
        at = best_amplitudes(program, place(program, Factors(found.left, signed, found.gate % P)))
        return Point(at.prediction, float(at.factors.penalty()), lambda: at.factors)


def _pairs(program: Program[ConeGauge]) -> Program[ConeNorm]:
    every = torch.arange(program.operator.n_gates)
    cones = program.gauge.region.restrict(torch.cat([every, every]))
    return Program(SignedOperator.both(program.operator), program.loss, ConeNorm(cones), program.beta)
