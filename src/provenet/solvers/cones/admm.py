"""ADMM for ReLU programs with one output: the plain fallback.

The cones are split off together with the norms: the prox of both is the projection on the cone, shortened.  So this is
the ADMM of the other programs, on pairs (gate, sign), with its kernel and its way of choosing ρ; and its sparse copy is
in the cones.  The point that is returned is that copy, at its best amplitudes.
"""

from __future__ import annotations

from dataclasses import dataclass

from provenet.gauges import ConeGauge, ProxGauge
from provenet.problem import Program
from provenet.reductions import SignedPairs
from provenet.solvers.loop import Point
from provenet.solvers.needs import CONES, KERNEL, UNPAID
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.place import place
from provenet.solvers.offers import Offer, Task
from provenet.solvers.stacks.admm import ADMM, ADMMState


@dataclass(frozen=True)
class ConeADMM(ADMM):
    name, family = "cone_admm", "admm"
    needs = (CONES, KERNEL, UNPAID)
    check_every = 10
    patience = 200  # its last digits come slowly where arrangements are nearly alike
    max_steps = 20_000
    wants = (SignedPairs(),)

    def declines(self, program: Program[ConeGauge]) -> str | None:
        if program.operator.q != 1:
            return "its gauge has a prox only where a neuron has one output weight; take 'frank_wolfe' or 'bm'."
        return None

    def memory(self, program: Program[ConeGauge]) -> int:
        op = program.operator
        rows = program.gauge.region.rows.shape[0]
        return op.dtype.itemsize * (op.kernel_rows**2 + 2 * op.n_gates * (3 * rows + 20 * op.p)) + 2 * op.held_bytes

    def offer(self, task: Task) -> Offer:
        return Offer(self.memory(task.program))

    def point(self, program: Program[ProxGauge], state: ADMMState) -> Point:
        at = best_amplitudes(program, place(program, program.gauge.factorise(state.a)))
        return Point.of(at.factors, at.prediction)
