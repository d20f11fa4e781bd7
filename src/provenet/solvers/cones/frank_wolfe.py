"""Frank–Wolfe for ReLU programs, fully corrective: its oracle is cone-constrained PCA (CP Algorithm 1).

Each step adds the neurons that the violated arrangements offer, finds the best second layers of all (convex; those not
needed vanish), and improves the first layers within their cones.  The algorithm as the paper has it is in `classic`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from provenet import deadline
from provenet.gauges import ConeGauge
from provenet.problem import Program
from provenet.solvers.cones.newton import improved
from provenet.solvers.cones.second_layers import best_second_layers, distinct
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import CONES, TABLE
from provenet.solvers.neurons.place import Place, place
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors
from provenet.vectors import unit

_VIOLATED = 1e-12  # a polar this close to β is no violation
_NEEDED = 1e-6  # of the largest neuron: smaller ones go
_CLOSE = 1e-3  # 1 − cos of neurons of one gate that may be one
_GAINED = 1e-14  # of the objective: what rounding may make of none
_IDLE = 4  # steps without descent before the method gives up
_UNKNOWNS = 1_200  # of the second layers
_WIDE = 32  # orthogonal rows beyond which steps are too many


@dataclass(frozen=True)
class FrankWolfeState:
    """``exhausted``: no arrangement offers a neuron, or none has helped for the last ``idle`` steps."""

    place: Place
    exhausted: bool = False
    idle: int = 0


@dataclass(frozen=True)
class FrankWolfe(Method[FrankWolfeState]):
    """atoms: neurons a step may add.  improvements: steps within the cones after."""

    atoms: int = 256
    improvements: int = 8

    name = "frank_wolfe"
    needs = (CONES,)
    patience = 200
    max_steps = 2_000

    def offer(self, task: Task) -> Offer:
        """It goes over the cones one by one: for tables of rows.  With several outputs the one cone of orthogonal rows
        is too wide for that: neurons by the hundred are wanted there."""
        op, gauge = task.program.operator, task.program.gauge
        searched = float(op.kernel_rows) * op.n_gates * op.p**2
        tabled = TABLE.of(task.program)
        open_wide = gauge.spike_free and op.q > 1
        starts, finishes = tabled and not open_wide, tabled and not (open_wide and op.kernel_rows > _WIDE)
        return Offer(self.memory(task.program), 0.0, task.product + 10 * searched, 10 * task.decades, starts, finishes)

    def memory(self, program: Program) -> int:
        """All second layers are found together: what every weight of theirs does to the prediction is written down."""
        op = program.operator
        neurons = min(self.atoms, max(_UNKNOWNS // op.q, 8))
        return super().memory(program) + 3 * 8 * neurons * op.q * math.prod(op.output_shape)

    def init(self, program: Program[ConeGauge], start: Factors | None) -> FrankWolfeState:
        return FrankWolfeState(place(program, start or program.nobody))

    def step(self, program: Program[ConeGauge], state: FrankWolfeState) -> FrankWolfeState:
        region = program.gauge.region
        offered = self._offers(program, state.place)
        # where nothing is offered a start from a smaller β may still be far too large: second layers shrink it
        there = fully_corrected(program, state.place.factors, offered)
        merged = improved(program, region, place(program, merge(there.factors)), self.improvements)
        if merged.value > there.value:
            merged = improved(program, region, there, self.improvements)
        # once more: the dual point, which the proof needs, is far more accurate at the best second layers
        final = fully_corrected(program, merged.factors, None)
        if final.value < state.place.value * (1 - _GAINED):
            return FrankWolfeState(final)
        if offered is None:
            return replace(state, exhausted=True)
        idle = state.idle + 1
        return FrankWolfeState(final, exhausted=idle >= _IDLE, idle=idle)

    def _offers(self, program: Program[ConeGauge], at: Place) -> Factors | None:
        """The neurons (unit u, v) of the gates most violated; None where none is."""
        slope = program.operator.adjoint(program.loss.gradient(at.prediction))
        gates, u, v = program.gauge.violated(-slope, program.beta * (1 + _VIOLATED))
        if gates.numel() == 0:
            return None
        most = min(self.atoms, max(_UNKNOWNS // program.operator.q - at.factors.n_neurons, 8))
        return Factors(u[:most], v[:most], gates[:most])

    def finished(self, state: FrankWolfeState) -> bool:
        return state.exhausted

    def point(self, program: Program[ConeGauge], state: FrankWolfeState) -> Point:
        return Point.of(state.place.factors, state.place.prediction)


def fully_corrected(program: Program[ConeGauge], old: Factors, new: Factors | None) -> Place:
    """The best second layers for the first layers of both, without the neurons that are not needed; ``old`` as they are
    where there is no time left."""
    if (old.n_neurons == 0 and new is None) or deadline.over():
        return place(program, old)
    both = old.with_unit_left()
    if new is not None:
        both = Factors.join(both, Factors(new.left, torch.zeros_like(new.right), new.gate))
    columns = program.operator.second_layer_columns(both.left, both.gate)
    keep = distinct(columns)
    both = both.select(keep)
    if both.n_neurons == 0:  # no atom reaches anything
        return place(program, both)
    start = both.right if old.n_neurons else None
    found = best_second_layers(program.loss, program.beta, columns[keep], start)
    return place(program, Factors(both.left, found.v, both.gate).balanced(_NEEDED))


def merge(factors: Factors) -> Factors:
    """Neurons of one gate whose directions nearly agree become one: sums of u stay in their cone."""
    if factors.n_neurons < 2:
        return factors
    size = factors.sizes()
    u, v = unit(factors.left), unit(factors.right)
    close = (u @ u.T > 1 - _CLOSE) & (v @ v.T > 1 - 10 * _CLOSE) & (factors.gate[:, None] == factors.gate)
    leader = torch.where(close & (size >= size[:, None]), size, 0.0).argmax(1)  # the largest close by
    leader = leader[leader]
    u_sum = torch.zeros_like(u).index_add_(0, leader, u * size[:, None])
    direction = unit(u_sum)
    pull = (u * direction[leader]).sum(1, keepdim=True) * size[:, None] * v
    v_sum = torch.zeros_like(v).index_add_(0, leader, pull)
    heads = torch.unique(leader)
    return Factors(direction[heads], v_sum[heads], factors.gate[heads]).balanced()
