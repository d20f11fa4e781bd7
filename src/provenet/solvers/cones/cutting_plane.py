"""Cutting planes for the dual of a ReLU program (CP A.5), by a level method, with cone-constrained PCA as oracle.

    p* = max_Θ −L*(Θ)   s.t.   ‖(A_k*Θ)ᵀu‖ ≤ β   for all unit u with K_k u ≥ 0

Finitely many u give an outer model, whose dual is a group lasso on those u: its solution is a network, its value
bounds p* from above.  The best feasible Θ so far bounds it from below.  The next Θ is the point of the model next to
that one among those that reach a level between the two bounds (Lemaréchal, Nemirovskii and Nesterov 1995): for the
squared loss a projection on the model, a group lasso again.  For other losses it is a mixture of that one and of the
model's own (Ben-Ameur and Neto 2007), which reaches as much, L* being convex.  The oracle's answers there are the next
cuts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import ConeGauge
from provenet.losses import Loss
from provenet.problem import Program
from provenet.solvers.cones.second_layers import SecondLayers, best_second_layers, distinct
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import CONES, SEPARATE, SQUARED
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
    needs = (CONES,)
    max_steps = 500

    def __post_init__(self) -> None:
        if not 0 < self.level <= 1:
            raise ValueError(f"level: it must be above zero and at most one, got {self.level!r}.")

    def init(self, program: Program[ConeGauge], start: Factors | None) -> CuttingPlaneState:
        op, zero = program.operator, torch.zeros_like(program.loss.target)
        cuts = program.nobody if start is None else _cuts_of(start)
        model = SecondLayers(cuts.right, zero, float(program.loss.value(zero)))
        state = CuttingPlaneState(
            cuts, op.second_layer_columns(cuts.left, cuts.gate), model, torch.zeros_like(zero), 0.0
        )
        return state if start is None else self._modelled(program, state)

    def step(self, program: Program[ConeGauge], state: CuttingPlaneState) -> CuttingPlaneState:
        theta = self._query(program, state)
        state, cut = self._asked(program, state, theta)
        if not cut:  # feasible: the level is reached; the model's own point is the one to cut off
            state, cut = self._asked(program, state, program.loss.gradient(state.model.prediction))
        return self._modelled(program, state) if cut else replace(state, exhausted=True)

    def _query(self, program: Program[ConeGauge], state: CuttingPlaneState) -> Tensor:
        """The first of some points on the path of projections that reaches the level."""
        loss = program.loss
        level = state.dual + self.level * (state.model.value - state.dual)
        if not (SQUARED.of(program) and SEPARATE.of(program)):
            return torch.lerp(state.best, loss.dual_at(state.model.prediction), self.level)
        if state.cuts.n_neurons and self.level < 1:
            unconstrained = loss.gradient(torch.zeros_like(state.best))
            for share in _TOWARDS:
                theta = _projected(program, state, state.best + share * (unconstrained - state.best))
                if -float(loss.conjugate(theta)) >= level:
                    return theta
        return loss.gradient(state.model.prediction)

    def _asked(
        self, program: Program[ConeGauge], state: CuttingPlaneState, theta: Tensor
    ) -> tuple[CuttingPlaneState, bool]:
        """The oracle at Θ: its cuts, and Θ scaled to be feasible, if that is the best so far."""
        theta = program.loss.admissible(theta)
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
        columns = torch.cat([state.columns, program.operator.second_layer_columns(u, gates)])
        keep = distinct(columns)
        if keep.numel() == state.cuts.n_neurons:
            return state, False
        return replace(state, cuts=Factors.join(state.cuts, new).select(keep), columns=columns[keep]), True

    def _modelled(self, program: Program[ConeGauge], state: CuttingPlaneState) -> CuttingPlaneState:
        """The model's solution; where cuts are many, without those far from tight."""
        start = state.cuts.right if state.model.v.shape[0] else None
        model = best_second_layers(program.loss, program.beta, state.columns, start)
        cuts = replace(state.cuts, right=model.v)
        most = max(_CUTS // program.operator.q, 50)
        if cuts.n_neurons <= most:
            return replace(state, cuts=cuts, model=model)
        keep = torch.sort(torch.argsort(cuts.sizes(), descending=True)[: most // 2]).values
        return replace(
            state, cuts=cuts.select(keep), columns=state.columns[keep], model=replace(model, v=model.v[keep])
        )

    def finished(self, state: CuttingPlaneState) -> bool:
        return state.exhausted

    def point(self, program: Program[ConeGauge], state: CuttingPlaneState) -> Point:
        factors = state.cuts.balanced(_NEEDED)
        penalty = float(torch.linalg.vector_norm(state.cuts.right, dim=1).sum())
        return Point(state.model.prediction, penalty, lambda: factors)


def _projected(program: Program[ConeGauge], state: CuttingPlaneState, centre: Tensor) -> Tensor:
    """The point of the model next to ``centre``, in the metric of L*: the gradient at a group lasso's solution."""
    loss = program.loss
    moved: Loss = loss.with_data(-centre / loss.weight, loss.sample_weight)
    found = best_second_layers(moved, program.beta, state.columns, state.cuts.right)
    return moved.gradient(found.prediction)


def _cuts_of(factors: Factors) -> Factors:
    """The neurons' own first layers, of unit length."""
    alive = torch.linalg.vector_norm(factors.left, dim=1) > 0
    return factors.select(alive).with_unit_left()
