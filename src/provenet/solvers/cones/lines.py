"""Frank–Wolfe for ReLU neurons with one output each and the 1- or ∞-norm for first layers (BM Thm B.1).

Every step asks each gate for its strongest neuron (a linear program a column and sign, `gauges.cones.lines`), and finds
the best sizes of all neurons met so far: a lasso.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges.cones.lines import ConeLines
from provenet.gauges.prox.mixed import norms
from provenet.problem import Program
from provenet.solvers.cones.second_layers import best_second_layers, distinct
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import LINES
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_VIOLATED = 1e-9
_NEEDED = 1e-9  # of the largest neuron: smaller ones are no part of the network
_PROGRAM = 2e5  # multiply-adds, about, of a linear program, for each of its rows


@dataclass(frozen=True)
class LinesState:
    """``atoms``: u with ‖u‖_C = 1, and v of one output each, with its sign and size; ``best``: their sizes are, which
    those of a start need not be."""

    atoms: Factors
    prediction: Tensor
    best: bool
    exhausted: bool = False


@dataclass(frozen=True)
class LineFrankWolfe(Method[LinesState]):
    name = "line_frank_wolfe"
    needs = (LINES,)
    max_steps = 500

    def offer(self, task: Task) -> Offer:
        op = task.program.operator
        rows = len(task.program.gauge.region.rows)
        return Offer(
            self.memory(task.program), 0.0, _PROGRAM * op.n_gates * 2 * op.q * rows, 5 * task.decades, True, True
        )

    def init(self, program: Program[ConeLines], start: Factors | None) -> LinesState:
        given = program.nobody if start is None else _one_output_each(start, program.gauge.first)
        return LinesState(given, program.operator.forward_factors(given), best=not given.n_neurons)

    def step(self, program: Program[ConeLines], state: LinesState) -> LinesState:
        op, loss = program.operator, program.loss
        lower, _, u, v = program.gauge.pulls(-op.adjoint(loss.gradient(state.prediction)))
        new = torch.nonzero(lower > program.beta * (1 + _VIOLATED)).flatten()
        if state.best and not len(new):
            return replace(state, exhausted=True)
        fresh = Factors(u[new], torch.zeros_like(v[new]), new)
        both = Factors.join(state.atoms, fresh)
        output = torch.cat([state.atoms.right, v[new]]).abs().argmax(1)
        columns = op.second_layer_columns(both.left, both.gate)  # (N, q, …): what each does to every output
        own = columns[torch.arange(len(output)), output][:, None]
        keep = distinct(own)
        if state.best and len(keep) == state.atoms.n_neurons:
            return replace(state, exhausted=True)
        both, output, own = both.select(keep), output[keep], own[keep]
        sizes = both.right.gather(1, output[:, None])
        found = best_second_layers(loss, program.beta, own, sizes if state.atoms.n_neurons else None)
        right = torch.zeros_like(both.right).scatter_(1, output[:, None], found.v)
        size = found.v[:, 0].abs()
        atoms = replace(both, right=right).select(size > _NEEDED * size.max())
        return LinesState(atoms, op.forward_factors(atoms), best=True)

    def finished(self, state: LinesState) -> bool:
        return state.exhausted

    def point(self, program: Program[ConeLines], state: LinesState) -> Point:
        """Both layers of one length, in their own norms."""
        root = norms(state.atoms.right, 1).sqrt()[:, None]
        inner = norms(state.atoms.left, program.gauge.first)[:, None].sqrt().clamp_min(1e-300)
        even = replace(state.atoms, left=state.atoms.left * root / inner, right=state.atoms.right * inner / root)
        return Point(state.prediction, float(program.gauge.penalty(even)), lambda: even)


def _one_output_each(factors: Factors, first: float) -> Factors:
    """Neurons of a start, one for each output that they write to, u of length one."""
    neuron, output = torch.nonzero(factors.right, as_tuple=True)
    length = norms(factors.left, first)[neuron]
    alive = length > 0
    neuron, output, length = neuron[alive], output[alive], length[alive]
    right = torch.zeros_like(factors.right[neuron])
    right[torch.arange(len(neuron)), output] = factors.right[neuron, output] * length
    return Factors(factors.left[neuron] / length[:, None], right, factors.gate[neuron])
