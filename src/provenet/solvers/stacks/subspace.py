"""A convex program on few directions of the first layer, which follow the gradient.

Few neurons are needed, and they span few of the p directions that a first layer has.  Where these are known, with
orthonormal rows B_k behind gate k, what is left is the same convex program in Z'_k (r, q), Z_k = B_kᵀZ'_k,

    min_Z'  L(Σ_k A_k(B_kᵀZ'_k)) + β Σ_k ‖Z'_k‖_*,

on n × r hidden values in place of the block.  Its solution shows where to look next, G = A*∇L(Ŷ): the gates whose polar
is beyond β offer their top left singular vectors, and every neuron the direction G_k v_j in which its first layer would
move.  Together with the neurons there are, and those before, they span the next subspace, as in LOBPCG (Knyazev 2001).
The objective never rises; a point is optimal where no gate has anything to offer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import Gap
from provenet.gauges import ProxGauge
from provenet.gauges.spectral import leading_pairs
from provenet.polar import is_large
from provenet.problem import Program
from provenet.solvers.loop import Limits, Method, Point, run
from provenet.solvers.needs import NARROWS, NUCLEAR, PROX
from provenet.solvers.neurons.place import Place, place
from provenet.solvers.offers import Offer, Task
from provenet.solvers.stacks.apg import APG
from provenet.solvers.status import Status
from provenet.variable import ByGate, Factors
from provenet.vectors import unit

_SHARE = 0.02  # of the gap: as well is the program on the subspace solved
_LEAST = 1e-13  # its relative gap, from which on rounding has the say
_LONG = 128  # weights of a first layer from which on a few directions of it are the smaller program;
_DIRECTIONS = 8  # they come to so many a gate
_SAME = 1e-9  # directions closer than this are one


@dataclass(frozen=True)
class SubspaceState:
    """``before``: neurons of the step before.  ``tol``: the relative gap for the next programs on subspaces.
    ``exhausted``: even the tightest found no better point."""

    place: Place
    before: Factors
    tol: float = 0.1
    exhausted: bool = False


@dataclass(frozen=True)
class Subspace(Method[SubspaceState]):
    """directions: new ones a violated gate may bring in a step.  rounds: subspaces in a step that follow the neurons
    alone, before all gates are asked again.  inner_steps: of the proximal gradient on one of them."""

    directions: int = 2
    rounds: int = 4
    inner_steps: int = 400

    name = "subspace"
    needs = (NUCLEAR, PROX, NARROWS)
    patience = 30
    max_steps = 1_000

    def declines(self, program: Program) -> str | None:
        return "its stack is too large to be formed; use 'bm'." if is_large(program.operator) else None

    def memory(self, program: Program) -> int:
        op = program.operator
        features = op.kernel_rows * op.n_gates * min(self.directions, op.p) * max(op.q // op.output_shape[-1], 1)
        return 4 * op.stack_bytes + 4 * features * op.dtype.itemsize

    def offer(self, task: Task) -> Offer:
        """A*, and the proximal gradient on the few directions that each gate has by then."""
        op = task.program.operator
        inner = 4.0 * self.rounds * self.inner_steps * task.rows * op.n_gates * _DIRECTIONS * op.q
        steps = max(2.5 * task.decades * task.hardship, 2.0)  # one finds the directions, the next how far they go
        grouped = op.q < op.output_shape[-1]  # not measured there
        starts = op.n_gates > 1 and op.p >= _LONG and not task.only_neurons and not grouped
        return Offer(self.memory(task.program), 0.0, task.product + inner, steps, starts)

    def init(self, program: Program[ProxGauge], start: Factors | None) -> SubspaceState:
        return SubspaceState(place(program, start or program.nobody), program.nobody)

    def step(self, program: Program[ProxGauge], state: SubspaceState) -> SubspaceState:
        now, before = state.place, state.before
        offered = self._offered(program, now)
        for _ in range(self.rounds):
            there = self._solved(program, now, Factors.join(before, offered), state.tol)
            if there is None:
                break
            now, before, offered = there, now.factors, program.nobody
            if deadline.over():
                break
        if now is state.place:
            return replace(state, tol=_SHARE * state.tol, exhausted=state.tol <= _LEAST)
        return replace(state, place=now, before=before)

    def look(self, program: Program[ProxGauge], state: SubspaceState, gap: Gap) -> SubspaceState:
        return replace(state, tol=max(min(state.tol, _SHARE * gap.relative), _LEAST))

    def finished(self, state: SubspaceState) -> bool:
        return state.exhausted

    def point(self, program: Program[ProxGauge], state: SubspaceState) -> Point:
        return Point.of(state.place.factors, state.place.prediction)

    def _offered(self, program: Program[ProxGauge], at: Place) -> Factors:
        """The top left singular vectors of gates whose polar is beyond β."""
        slope = program.operator.adjoint(program.loss.gradient(at.prediction))
        gates = torch.nonzero(program.gauge.polar(slope).upper > program.beta).flatten()
        sigma, left, right = leading_pairs(slope[gates], self.directions)
        gate, rank = torch.nonzero(sigma > program.beta, as_tuple=True)
        return Factors(left[gate, rank], right[gate, rank], gates[gate])

    def _solved(self, program: Program[ProxGauge], at: Place, others: Factors, tol: float) -> Place | None:
        """The optimum over what the neurons, their gradients and ``others`` span; None where it is no better."""
        factors, theta = at.factors, program.loss.gradient(at.prediction)
        towards = program.operator.adjoint_factors(theta, factors)[0]
        rows = torch.cat([factors.left, towards, others.left])
        groups = ByGate(torch.cat([factors.gate, factors.gate, others.gate]))
        if groups.width == 0:
            return None
        basis = _orthonormal(groups.gather(unit(rows)))
        few = Program(program.operator.narrowed(groups.names, basis), program.loss, program.gauge, program.beta)
        place_of = torch.searchsorted(groups.names, factors.gate)
        start = Factors(_times(basis[place_of], factors.left), factors.right, place_of)
        done = run(APG(), few, Limits(tol, self.inner_steps), start)
        if done.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if done.steps == 0:
            return None
        found = done.factors
        there = place(few, found)
        if not there.value < at.value:
            return None
        left = _times(basis[found.gate].mT, found.left)
        return Place(Factors(left, found.right, groups.names[found.gate]), there.prediction, there.value)


def _orthonormal(rows: Tensor) -> Tensor:
    """Orthonormal rows with the span of the rows (K, w, p), and zeros: (K, r, p), r the largest rank."""
    _, sigma, basis = torch.linalg.svd(rows, full_matrices=False)
    kept = sigma > _SAME * sigma[:, :1].clamp_min(math.ulp(0.0))
    return (basis * kept.unsqueeze(2))[:, : int(kept.sum(1).max())]


def _times(matrices: Tensor, rows: Tensor) -> Tensor:
    """Each of the rows (N, w) by its own matrix (N, v, w)."""
    return torch.bmm(matrices, rows.unsqueeze(2)).squeeze(2)
