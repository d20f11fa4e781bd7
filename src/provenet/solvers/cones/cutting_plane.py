"""Cutting planes for the dual of a ReLU program (CP A.5), by a level method, with cone-constrained PCA as oracle.

    p* = max_Θ −L*(Θ)   s.t.   ‖(A_k*Θ)ᵀu‖ ≤ β   for all unit u with K_k u ≥ 0

Finitely many u give an outer model, whose dual is a group lasso on those u: its solution is a network, its value
bounds p* from above.  The best feasible Θ so far bounds it from below.  The next Θ is the point of the model next to
that one among those that reach a level between the two bounds (Lemaréchal, Nemirovskii and Nesterov 1995); for the
squared loss it is a projection on the model, a group lasso again.  The oracle's answers there are the next cuts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import ConeNuclear
from provenet.losses import Loss
from provenet.problem import Program
from provenet.solvers.cones.frank_wolfe import balanced
from provenet.solvers.cones.second_layers import SecondLayers, atom_columns, best_second_layers, distinct
from provenet.solvers.loop import Method, Point
from provenet.solvers.neurons.place import sizes
from provenet.variable import Factors

_NEEDED = 1e-9  # of the largest neuron: smaller ones are no part of the network
_VIOLATED = 1e-12
_TOWARDS = (0.3, 0.6, 0.85, 0.95)  # how far from the best Θ towards −∇L(0) the projected point may lie, in turn
_CUTS = 1_500  # times outputs: the most that are kept


@dataclass(frozen=True)
class CuttingPlaneState:
    """``cuts``: their u, with the model's second layers.  ``best`` Θ is feasible and reaches ``dual``."""

    cuts: Factors
    columns: Tensor
    model: SecondLayers
    best: Tensor
    dual: float
    exhausted: bool = False


@dataclass(frozen=True)
class CuttingPlane(Method[CuttingPlaneState]):
    """level: between zero, the best value so far, and one, the model's (Kelley's method)."""

    level: float = 0.5

    name = "cutting_plane"
    max_steps = 500

    def __post_init__(self) -> None:
        if not 0 < self.level <= 1:
            raise ValueError(f"level: it must be above zero and at most one, got {self.level!r}.")

    def refuses(self, program: Program) -> str | None:
        if not isinstance(program.gauge, ConeNuclear) or program.gauge.region is None:
            return "its oracle is cone-constrained PCA: it is for the programs of ReLU."
        if not program.loss.quadratic:
            return "its level steps are projections for the squared loss only; 'frank_wolfe' takes any loss."
        return None

    def init(self, program: Program, start: Factors | None) -> CuttingPlaneState:
        op, zero = program.operator, torch.zeros(program.operator.output_shape, dtype=program.operator.dtype)
        cuts = Factors.empty(op.p, op.q, op.space) if start is None else _unit(start)
        model = SecondLayers(cuts.right, zero, float(program.loss.value(zero)))
        state = CuttingPlaneState(cuts, atom_columns(op, cuts.left, cuts.gate), model, torch.zeros_like(zero), 0.0)
        return state if start is None else self._modelled(program, state)

    def step(self, program: Program, state: CuttingPlaneState) -> CuttingPlaneState:
        theta = self._level_point(program, state)
        state, cut = self._asked(program, state, theta)
        if not cut:  # feasible: the level is reached; the model's own point is the one to cut off
            state, cut = self._asked(program, state, program.loss.gradient(state.model.prediction))
        return self._modelled(program, state) if cut else replace(state, exhausted=True)

    def _level_point(self, program: Program, state: CuttingPlaneState) -> Tensor:
        """The first of some points on the path of projections that reaches the level."""
        loss = program.loss
        level = state.dual + self.level * (state.model.value - state.dual)
        if state.cuts.n_neurons and self.level < 1:
            unconstrained = loss.gradient(torch.zeros_like(state.best))
            for share in _TOWARDS:
                theta = _projected(program, state, state.best + share * (unconstrained - state.best))
                if -float(loss.conjugate(theta)) >= level:
                    return theta
        return loss.gradient(state.model.prediction)

    def _asked(self, program: Program, state: CuttingPlaneState, theta: Tensor) -> tuple[CuttingPlaneState, bool]:
        """The oracle at Θ: its cuts, and Θ scaled to be feasible, if that is the best so far."""
        assert isinstance(program.gauge, ConeNuclear)
        slope = program.operator.adjoint(theta)
        polar = program.gauge.polar(slope, program.beta)
        tau = program.loss.dual_scale(theta, program.beta / max(float(polar.upper.max()), 1e-300))
        dual = -float(program.loss.conjugate(tau * theta))
        if dual > state.dual:
            state = replace(state, best=tau * theta, dual=dual)
        gates, u, v = program.gauge.violated(-slope, program.beta * (1 + _VIOLATED))
        if gates.numel() == 0:
            return state, False
        new = Factors(u, torch.zeros_like(v), gates)
        columns = torch.cat([state.columns, atom_columns(program.operator, u, gates)])
        keep = distinct(columns)
        if keep.numel() == state.cuts.n_neurons:
            return state, False
        return replace(state, cuts=Factors.join(state.cuts, new).select(keep), columns=columns[keep]), True

    def _modelled(self, program: Program, state: CuttingPlaneState) -> CuttingPlaneState:
        """The model's solution; where cuts are many, without those far from tight."""
        start = state.cuts.right if state.model.v.shape[0] else None
        model = best_second_layers(program.loss, program.beta, state.columns, start)
        cuts = replace(state.cuts, right=model.v)
        most = max(_CUTS // program.operator.q, 50)
        if cuts.n_neurons <= most:
            return replace(state, cuts=cuts, model=model)
        keep = torch.sort(torch.argsort(sizes(cuts), descending=True)[: most // 2]).values
        return replace(
            state, cuts=cuts.select(keep), columns=state.columns[keep], model=replace(model, v=model.v[keep])
        )

    def finished(self, state: CuttingPlaneState) -> bool:
        return state.exhausted

    def point(self, program: Program, state: CuttingPlaneState) -> Point:
        factors = balanced(state.cuts, _NEEDED)
        penalty = float(torch.linalg.vector_norm(state.cuts.right, dim=1).sum())
        return Point(state.model.prediction, penalty, lambda: factors)


def _projected(program: Program, state: CuttingPlaneState, centre: Tensor) -> Tensor:
    """The point of the model next to ``centre``, in the metric of L*: the gradient at a group lasso's solution."""
    loss = program.loss
    moved: Loss = loss.with_data(-centre / loss.weight, loss.sample_weight)
    found = best_second_layers(moved, program.beta, state.columns, state.cuts.right)
    return moved.gradient(found.prediction)


def _unit(factors: Factors) -> Factors:
    """First layers of unit length, the second ones taking up their lengths."""
    length = torch.linalg.vector_norm(factors.left, dim=1, keepdim=True)
    factors = Factors(factors.left / length.clamp_min(1e-300), factors.right * length, factors.gate)
    return factors.select(length[:, 0] > math.ulp(0.0))
