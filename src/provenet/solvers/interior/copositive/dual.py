"""The copositive relaxation where it is large: its dual, by a barrier method on few walls (CP eq. 19, 20).

For any loss and any block with a table of rows.  Each step follows the central path a little further and adds the walls
that T violates; every step's Θ proves a lower bound of p*, `solution.lower_bound`, which is what the method is for.
The neurons are those that the relaxation suggests, improved a little.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import DualPoint
from provenet.cones import Table, project
from provenet.cones.search import climb
from provenet.gauges import ConeGauge
from provenet.gauges.spectral import spectral_norms
from provenet.problem import Program
from provenet.solvers.cones.frank_wolfe import fully_corrected
from provenet.solvers.cones.newton import improved
from provenet.solvers.interior.copositive.barrier import Barrier
from provenet.solvers.interior.copositive.bound import proven
from provenet.solvers.interior.copositive.cuts import Cuts
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, SMOOTH_CONJUGATE, TABLE
from provenet.variable import Factors
from provenet.vectors import unit

_BEGIN = 0.5  # of β: the largest ‖G_k‖ of the first Θ, and of ∇L(0): how far towards it that may be
_SHRINK = 0.5  # of μ, a step
_CENTRED = 0.5  # Newton's decrement, squared
_CENTRING = 15  # Newton steps for each μ
_EARLY = 0.3  # of L(0): what μ may be off by when the first walls are built
_NEEDED = 1e-3  # of the largest trace of a T_k: gates below need no walls
_WALLS = 2**24  # P·L², for L walls a gate
_FEW, _ROWS_A_WALL = 15, 16  # new walls a gate: at least, and one for so many rows
_UNKNOWNS = 1_200  # of the second layers
_IMPROVEMENTS = 20  # steps within the cones
_STEP_SHARE, _RESERVE = 0.7, 0.5  # of the time left, for a step; of the time used, what must be left for one
_FACTORED = 40  # multiply-adds a p³: what a Newton step and a bound factor of every gate's p × p matrices, at least
_MINOR = 1e-6  # of the largest eigenvalue: smaller ones suggest no neuron


@dataclass(frozen=True)
class DualState:
    """``best``: the point with the best bound of p*, what that has ``grown`` by in the last step; ``given`` before the
    first step; ``seconds`` that the steps have taken."""

    theta: Tensor
    cuts: Cuts
    mu: float
    best: DualPoint | None
    grown: float
    given: Factors | None
    stuck: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class CopositiveDual(Method[DualState]):
    """accuracy: a step that lifts the bound by less than half of this, relatively, is the last.  walls: that join each
    gate's in a step; with too few, steps are small long before the optimum.  None: by the number of rows."""

    accuracy: float = 1e-3
    walls: int | None = None

    name, family = "copositive_dual", "copositive"
    needs = (TABLE, SMOOTH_CONJUGATE, DOUBLE)
    check_every = 1_000  # a look bounds the pull of every cone, which may cost more than the whole run: only at the end
    max_steps = 100

    def declines(self, program: Program[ConeGauge[Table]]) -> str | None:
        dense_only = "of whitened X the copositive program is solved by its dense form only."
        return dense_only if program.gauge.spike_free else None

    def memory(self, program: Program[ConeGauge[Table]]) -> int:
        op = program.operator
        gates, p, q = op.stack_shape
        width = self._most(program)
        blocks = gates * (6 * width**2 + 8 * width * p + 8 * p * p + 8 * p * q)
        return op.dtype.itemsize * (blocks + 12 * program.loss.target.numel() + 4 * _WALLS)

    def _most(self, program: Program[ConeGauge[Table]]) -> int:
        """Walls a gate may have."""
        return max(int((_WALLS / program.operator.n_gates) ** 0.5), self._new(program))

    def _new(self, program: Program[ConeGauge[Table]]) -> int:
        """Walls that join a gate's in a step."""
        return max(_FEW, len(program.gauge.region.rows) // _ROWS_A_WALL) if self.walls is None else self.walls

    def ends(self, program: Program) -> bool:
        return False

    def init(self, program: Program[ConeGauge[Table]], start: Factors | None) -> DualState:
        op = program.operator
        given = start or program.nobody
        zero = op.space.zeros(*op.output_shape)
        slope = program.loss.gradient(zero)
        pull = float(spectral_norms(op.adjoint(slope)).max())
        theta = _BEGIN * min(1.0, program.beta / max(pull, 1e-300)) * slope
        mu = float(program.loss.value(zero)) / (op.n_gates * op.p)
        return DualState(theta, Cuts.none(op.n_gates, op.p, op.dtype), mu, None, float("inf"), given)

    def step(self, program: Program[ConeGauge[Table]], state: DualState) -> DualState:
        """One more, where that leaves time for the neurons that the bound suggests."""
        op = program.operator
        if deadline.left() < _RESERVE * state.seconds or not deadline.affords(_FACTORED * op.n_gates * op.p**3):
            return replace(state, stuck=True)
        began = time.perf_counter()
        with deadline.within(_STEP_SHARE * deadline.left()):
            after = self._step(program, state)
        return replace(after, seconds=state.seconds + time.perf_counter() - began)

    def _step(self, program: Program[ConeGauge[Table]], state: DualState) -> DualState:
        barrier = _barrier(program)
        theta, cuts, mu = state.theta, state.cuts, state.mu
        try:
            for _ in range(_CENTRING):
                theta, cuts, decrement = barrier.newton(theta, cuts, mu)
                if decrement < _CENTRED or deadline.over():
                    break
        except torch.linalg.LinAlgError:  # rounding has the upper hand
            return replace(state, given=None, stuck=True)
        bound = proven(program, theta, cuts.combined(cuts.s), cuts.s.sum(1), cuts.s.shape[1])
        before = -float("inf") if state.best is None else state.best.lower
        best = bound if state.best is None or bound.lower > before else state.best
        off = self._off(program, cuts, mu)
        if off < _EARLY * float(program.loss.value(torch.zeros_like(theta))):
            R, _ = barrier.room(theta, cuts)
            T = torch.linalg.inv(R)
            trace = torch.where(cuts.centred(T), T.diagonal(dim1=1, dim2=2).sum(1), 0.0)
            needed = torch.nonzero(trace > _NEEDED * trace.max()).flatten()
            cuts = cuts.with_violated(program.gauge.region, T, R, needed, self._new(program), self._most(program))
        floor = 0.3 * self.accuracy * abs(best.lower) / max(off / mu, 1.0)
        return DualState(theta, cuts, max(_SHRINK * mu, floor), best, best.lower - before, None)

    def _off(self, program: Program[ConeGauge[Table]], cuts: Cuts, mu: float) -> float:
        """How far the centre for μ is from the optimum, with these walls."""
        return mu * (program.operator.n_gates * program.operator.p + int(cuts.there.sum()))

    def finished(self, state: DualState) -> bool:
        return state.stuck or (state.best is not None and state.grown < 0.5 * self.accuracy * abs(state.best.lower))

    def point(self, program: Program[ConeGauge[Table]], state: DualState) -> Point:
        factors = state.given if state.given is not None else _suggested(program, state)
        return Point.of(factors, program.operator.forward_factors(factors), state.best)


def _barrier(program: Program) -> Barrier:
    conjugate = program.loss.smooth_conjugate()
    assert conjugate is not None
    return Barrier(program, conjugate)


def _suggested(program: Program[ConeGauge[Table]], state: DualState) -> Factors:
    """Neurons along the larger eigenvectors of each T_k and where ‖G_kᵀu‖ is largest, improved within their cones."""
    R, G = _barrier(program).room(state.theta, state.cuts)
    value, vectors = torch.linalg.eigh(torch.linalg.inv(R))
    gate, which = torch.nonzero(value > _MINOR * value.max(), as_tuple=True)
    most = max(_UNKNOWNS // program.operator.q // 2, 1)
    order = torch.argsort(value[gate, which], descending=True)[:most]
    gate, which = gate[order], which[order]
    cones, u = program.gauge.region, vectors[gate, :, which]
    turned = project(cones.rows, cones.signs[gate].repeat(2, 1), torch.cat([u, -u])).point
    longer = torch.linalg.vector_norm(turned, dim=1).view(2, -1).argmax(0)
    u = turned.view(2, *u.shape)[longer, torch.arange(len(u))]
    active = torch.unique(gate)
    peaks = climb(cones.restrict(active), G[active])
    u, gate = torch.cat([u, peaks.u]), torch.cat([gate, active])
    length = torch.linalg.vector_norm(u, dim=1)
    atoms = Factors(unit(cones.pulled_inside(unit(u), gate)), G.new_zeros(len(u), G.shape[2]), gate)
    there = fully_corrected(program, program.nobody, atoms.select(length > _MINOR))
    return improved(program, cones, there, _IMPROVEMENTS).factors
