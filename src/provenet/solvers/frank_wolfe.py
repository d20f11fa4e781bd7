"""Frank–Wolfe for ReLU programs: neurons from cone-constrained PCA, amplitudes re-optimised (CP Algorithm 1).

Each step adds the neurons that the most violated arrangements offer and finds the best amplitudes of all neurons, a
small convex program (fully corrective); those that vanish are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from provenet.gauges import ConeNuclear
from provenet.problem import Program
from provenet.solvers.bm_amplitudes import best_amplitudes
from provenet.solvers.bm_factors import Place, place
from provenet.solvers.loop import Method, Point
from provenet.variable import Factors


@dataclass(frozen=True)
class FrankWolfeState:
    place: Place
    exhausted: bool = False


@dataclass(frozen=True)
class FrankWolfe(Method[FrankWolfeState]):
    """atoms: neurons a step may add."""

    atoms: int = 16

    name = "frank_wolfe"
    patience = 200
    max_steps = 2_000

    def refuses(self, program: Program) -> str | None:
        if not isinstance(program.gauge, ConeNuclear) or program.gauge.cones is None:
            return "its oracle is cone-constrained PCA: it needs the ReLU program of a block with a table of rows."
        return None

    def init(self, program: Program, start: Factors | None) -> FrankWolfeState:
        op = program.operator
        return FrankWolfeState(place(program, Factors.empty(op.p, op.q, op.dtype) if start is None else start))

    def step(self, program: Program, state: FrankWolfeState) -> FrankWolfeState:
        assert isinstance(program.gauge, ConeNuclear)
        slope = program.operator.adjoint(program.loss.gradient(state.place.prediction))
        polar = program.gauge.polar(slope)
        gates = torch.argsort(polar.lower, descending=True)[: self.atoms]
        gates = gates[polar.lower[gates] > program.beta]
        if gates.numel() == 0:
            return replace(state, exhausted=True)
        u, v = program.gauge.restrict(gates).atom(-slope[gates])
        old = state.place.factors
        size = float(old.penalty()) / max(old.n_neurons, 1) or 1e-6
        grown = place(program, Factors.join(old, Factors(u, v, gates).scaled((1e-3 * size) ** 0.5)))
        there = best_amplitudes(program, grown)
        return FrankWolfeState(there, exhausted=not there.value < state.place.value)

    def finished(self, state: FrankWolfeState) -> bool:
        return state.exhausted

    def point(self, program: Program, state: FrankWolfeState) -> Point:
        factors = state.place.factors
        return Point(state.place.prediction, float(factors.penalty()), lambda: factors)
