"""The Burer–Monteiro factorisation of ReLU programs (BM eq. 19, 24, 134; AT Thm 3.3, 4.2, 4.5, 4.8, C.6).

    min_{U,V}  L(Σ_k A_k(U_kV_kᵀ), Y) + β/2 Σ_k (‖U_k‖² + ‖V_k‖²)   with   K_kU_k ≥ 0

Descent on the neurons, never leaving their cones; where the certificate fails, cone-constrained PCA has the neuron that
lowers the objective.  It ends with a proof where the polar is known exactly, and else at a stationary point that no
atom found can leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.certificates import Gap
from provenet.cones import Region
from provenet.cones.search import glance
from provenet.gauges import ConeGauge
from provenet.gauges.spectral import spectral_norms
from provenet.problem import Program, Units
from provenet.solvers.cones.faces import feasible
from provenet.solvers.cones.frank_wolfe import merge
from provenet.solvers.cones.newton import Effort, face_step
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import CONES, TABLE
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.escape import line_search
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import Place, gaussian, place
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors, Stack

_SETTLED = 0.1  # a step that gains less than this part of the best since the last escape has little more to give
_CRAWL = 0.5  # of what the escape before it gained: escapes that gain more do not get near the end by themselves
_FAR = 5e-3  # a round that lowers the objective by more than this part of it is not near the end
_SLACK = 1e-12  # a polar this close to β is no violation
_CHUNK = 128  # gates searched at a time,
_SEARCH_SHARE = 0.3  # in this part of the time left
_CURVED = 1.5e5  # multiply-adds of a step with one output, for each number of a first layer's Hessian
_CROWDED = 3.5  # times more rounds for numbers, several a sample, at the usual β
_NARROW = 30  # rows a dimension from which cones are narrow
_HARD = 0.5  # of β: pulls this far beyond it are far from the end
_SAME = 1e-8  # 1 − cos of the angle between two vectors that are one
_SMALL = 1e-3  # of a neuron's usual size: what new ones begin with
_NEURONS, _WALLS = 2, 64  # a gate, and walls of each, that are expected where memory is counted,
_PREDICTIONS, _AT_WORK = 30, 3  # arrays of the prediction's size, and batches that are alive at a time


@dataclass(frozen=True)
class ConeBMState:
    """``exhausted``: no gate offers a neuron, and no step descends.  seen (P, p): unit vectors of the cones that pulled
    hard where the last look was.  gained: by the last escape.  idle: the steps after it added next to nothing."""

    place: Place
    damping: float = 1.0
    exhausted: bool = False
    seen: Tensor | None = None
    gained: float = math.inf
    idle: bool = False


@dataclass(frozen=True)
class ConeBM(Method[ConeBMState]):
    """rank: neurons a gate of a start around the gates' own vectors, ``spread`` wide, from ``seed``; None grows from
    zero.  A ``start`` given to the loop takes precedence.  atoms: neurons an escape may add, or a quarter of those
    there are; ``escape`` False: none.  descents: Newton steps between two escapes.  rounds: of both, at most, between
    two looks at the gap."""

    rank: int | None = None
    spread: float = 0.1
    seed: int = 0
    escape: bool = True
    atoms: int = 256
    descents: int = 2
    rounds: int = 6
    newton: NewtonSettings = field(default_factory=NewtonSettings)

    name, family = "cone_bm", "bm"
    needs = (CONES,)
    patience = 300
    max_steps = 2_000

    def in_units(self, units: Units) -> ConeBM:
        return replace(self, spread=self.spread / units.z**0.5)

    def memory(self, program: Program) -> int:
        """Where rows are millions, what goes through them, and the walls of the neurons, are more than the stacks."""
        op = program.operator
        stacks = super().memory(program)
        if TABLE.of(program):
            return stacks
        walls = 3 * 8 * _NEURONS * op.n_gates * min(_WALLS, op.p) * op.p
        at_work = _AT_WORK * min(batches.BLOCK, batches.share(batches.BATCHES))
        return stacks + op.held_bytes + _PREDICTIONS * 8 * math.prod(op.output_shape) + walls + at_work

    def offer(self, task: Task) -> Offer:
        """The first choice where polars are hard, for several outputs beyond three dimensions; elsewhere unless neurons
        crowd, as at a small β: with one output where cones are wide, too, with several those of numbers, not of labels.
        The only one without a table of rows."""
        op = task.program.operator
        if not TABLE.of(task.program):
            return Offer(self.memory(task.program), 0.0, 50 * task.product, 5 * task.decades, True, True)
        searched = float(op.kernel_rows) * op.n_gates * op.p**2
        gauge = task.program.gauge
        hard = not gauge.region.exact(op.q) and not gauge.spike_free
        one = op.q == op.output_shape[-1] == 1
        wide = max(1.0, _NARROW * op.p / max(len(gauge.region.rows), 1))
        dear = task.hardship * wide
        several = max(task.hardship, 1.0) if task.labels else _CROWDED * task.hardship**2
        steps = task.decades * (dear if one else 2 if hard else 2 * several)
        kinks = 2 if task.program.loss.kink is not None else 1
        found = _CURVED * op.p**2 * dear * kinks if one else 0.0  # more neurons, each for more steps
        starts = one or not gauge.spike_free
        return Offer(self.memory(task.program), 0.0, task.product + searched + found, steps, starts, hard)

    def work(self, program: Program) -> float:
        op = program.operator
        return float(op.output_shape[0]) * op.p * (op.p + op.q)

    def init(self, program: Program[ConeGauge], start: Factors | None) -> ConeBMState:
        if start is None and self.rank is None:
            return ConeBMState(place(program, program.nobody))
        if start is None:
            noise = gaussian(program, self.rank or 1, self.spread, self.seed)
            start = replace(noise, left=noise.left + self.spread * program.gauge.region.inside[noise.gate])
        inside = replace(start, left=feasible(program.gauge.region, start.left, start.gate).point)
        return ConeBMState(place(program, inside.balanced()))

    def step(self, program: Program[ConeGauge], state: ConeBMState) -> ConeBMState:
        """Rounds, until one gains too little to be far from the end: before that no bound is worth its time."""
        for round_ in range(self.rounds):
            try:
                before, state = state.place.value, self._round(program, state)
            except deadline.TooLong:
                if round_ == 0:
                    raise
                break
            if state.exhausted or before - state.place.value <= _FAR * abs(before) or deadline.over():
                break
        return state

    def _round(self, program: Program[ConeGauge], state: ConeBMState) -> ConeBMState:
        """An escape, then descent until it has little more to give."""
        at, damping, stuck = state.place, state.damping, False
        most = max(self.atoms, at.factors.n_neurons // 4)
        escaped = escape(program, at, most, state.seen) if self.escape else None
        gained = 0.0 if escaped is None else at.value - escaped.value
        at, best, walls = escaped or at, gained, None
        crawls = gained > _CRAWL * state.gained
        if state.idle and escaped is not None and not crawls:  # every second time: an escape costs less
            return ConeBMState(at, damping, seen=state.seen, gained=gained)
        effort = Effort.ALL if escaped is None else Effort.SOME if crawls else Effort.LITTLE
        for _ in range(self.descents):
            if deadline.over():
                return ConeBMState(at, damping, seen=state.seen)
            if at.factors.n_neurons == 0:
                stuck = True
                break
            try:
                move = face_step(program, program.gauge.region, at, damping, self.newton, walls, effort)
            except deadline.TooLong:
                if escaped is None:
                    raise
                return ConeBMState(at, damping, seen=state.seen)
            there = best_amplitudes(program, place(program, move.place.factors.balanced()))
            gain, damping, stuck, walls = at.value - there.value, move.damping, move.stuck, move.seen
            best, at = max(best, gain), there
            if stuck or gain <= _SETTLED * best:
                break
        exhausted, idle = stuck and escaped is None, best == gained
        return ConeBMState(at, damping, exhausted, state.seen, gained, idle)

    def look(self, program: Program[ConeGauge], state: ConeBMState, gap: Gap) -> ConeBMState:
        """What a bound of the polar has found on its way is what an escape looks for."""
        nothing = gap.peaks is None or torch.equal(gap.peaks, program.gauge.region.inside)
        return replace(state, seen=None if nothing else gap.peaks)

    def finished(self, state: ConeBMState) -> bool:
        return state.exhausted

    def point(self, program: Program[ConeGauge], state: ConeBMState) -> Point:
        return Point.of(state.place.factors, state.place.prediction)


Search = Callable[[Tensor, Region, Stack], Tensor]  # unit vectors u_k of the cones of these gates


class Violating(NamedTuple):
    """Gates (M,), ‖G_kᵀu‖ − β, and unit u (M, p) of their cones, v (M, q) with uᵀG_kv = −‖G_kᵀu‖."""

    gates: Tensor
    excess: Tensor
    u: Tensor
    v: Tensor


def escape(program: Program[ConeGauge], at: Place, most: int, seen: Tensor | None = None) -> Place | None:
    """``at`` with up to ``most`` neurons more, and a smaller objective; None where no gate offers one.

    The neurons that glances find, from where the last look has ``seen`` some (P, p) or within the cones, whichever is
    higher; where they do not help, from within all cones; those of a thorough search where none of them helps, or where
    that is exact and none pull hard.  With one output a
    thorough search is two projections a gate, and no glance is cheaper."""
    slope = program.operator.adjoint(program.loss.gradient(at.prediction))
    cheap, found = program.gauge.region.exact(program.operator.q), None
    starts = () if program.operator.q == 1 else (None,) if seen is None else (seen, None)
    for known in starts:

        def glances(gates: Tensor, region: Region, some: Stack, known: Tensor | None = known) -> Tensor:
            return glance(region, some, None if known is None else known[gates]).u

        found = _joined(violating(program, slope, most, glances), found)
        if found is not None and not (cheap and float(found.excess.max()) < _HARD * program.beta):
            there = _with_atoms(program, at, found)
            if there.value < at.value:
                return there
    peaks = violating(program, slope, most, lambda _, region, some: region.peaks(some, above=program.beta))
    found = _joined(peaks, found)
    there = at if found is None else _with_atoms(program, at, found)
    return there if there.value < at.value else None


def _joined(some: Violating | None, more: Violating | None) -> Violating | None:
    """Both, but of neurons that are the same the one of ``some``."""
    if some is None or more is None:
        return more if some is None else some
    same = (more.gates[:, None] == some.gates) & (more.u @ some.u.T > 1 - _SAME)
    new = ~same.any(1)
    return Violating(*(torch.cat([one, two[new]]) for one, two in zip(some, more, strict=True)))


def _with_atoms(program: Program[ConeGauge], at: Place, found: Violating) -> Place:
    """All neurons with their best amplitudes; those of one gate that nearly agree become one."""
    gates, excess, u, v = found
    typical = float(at.factors.sizes().mean()) if at.factors.n_neurons else 1.0
    atoms = Factors(u, v, gates).scaled((_SMALL * typical) ** 0.5)
    there = best_amplitudes(program, place(program, Factors.join(at.factors, atoms)))
    if there.factors.n_neurons == at.factors.n_neurons + len(gates) and there.value > at.value:
        size = excess.sqrt()[:, None]
        atoms = Factors(u * size, v * size, gates)
        amplitude = line_search(program, at.prediction, program.operator.forward_factors(atoms), float(atoms.penalty()))
        there = place(program, Factors.join(at.factors, atoms.scaled(amplitude**0.5)))
    return min(there, place(program, merge(there.factors)), key=lambda one: one.value)


def violating(program: Program[ConeGauge], slope: Stack, most: int, search: Search) -> Violating | None:
    """Up to ``most`` gates with ‖G_kᵀu‖ > β for some unit u of their cone that the search finds."""
    rough = spectral_norms(slope)
    order = torch.argsort(rough, descending=True)
    pulling = order[rough[order] > program.beta * (1 + _SLACK)]
    if pulling.numel() == 0:
        return None
    parts = []
    for gates in pulling.split(_CHUNK):
        with deadline.within(_SEARCH_SHARE * deadline.left()):  # what is found must still be put to use
            u = search(gates, program.gauge.region.restrict(gates), slope[gates])
        pull = torch.bmm(slope[gates].mT, u[:, :, None]).squeeze(2)
        value = torch.linalg.vector_norm(pull, dim=1)
        over = value > program.beta * (1 + _SLACK)
        parts.append((gates[over], value[over] - program.beta, u[over], -pull[over] / value[over, None]))
        if sum(len(part[0]) for part in parts) >= most:
            break
    if not any(len(part[0]) for part in parts):
        return None
    gates, excess, u, v = (torch.cat(some) for some in zip(*parts, strict=True))
    top = torch.argsort(excess, descending=True)[:most]
    return Violating(gates[top], excess[top], u[top], v[top])
