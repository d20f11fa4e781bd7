"""A method of a user's: the proximal gradient, without any acceleration."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from provenet.gauges import ProxGauge
from provenet.problem import Program
from provenet.solvers import Method, Point
from provenet.solvers.needs import PROX
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors


@dataclass(frozen=True)
class Iterate:
    stack: Tensor
    values: Tensor  # γ(Z_k)
    prediction: Tensor
    curvature: float  # that was enough for the last step


@dataclass(frozen=True)
class ProximalGradient(Method[Iterate]):
    """Z ← prox(Z − A*∇L(AZ)/c), with the curvature c doubled until the step descends, and ``ease`` of it tried next."""

    ease: float = 0.9

    name = "proximal_gradient"
    needs = (PROX,)
    check_every = 20
    max_steps = 200_000

    def offer(self, task: Task) -> Offer:
        return Offer(self.memory(task.program), step=2 * task.product, steps=1000 * task.hardship**2, starts=True)

    def init(self, program: Program[ProxGauge], start: Factors | None) -> Iterate:
        stack = program.operator.new_stack() if start is None else start.stack(program.operator.n_gates)
        most = program.loss.smoothness() * program.operator.norm_upper() ** 2
        return Iterate(stack, program.gauge.values(stack), program.operator.forward(stack), most / 64)

    def step(self, program: Program[ProxGauge], state: Iterate) -> Iterate:
        residual, base = program.loss.gradient(state.prediction), program.loss.value(state.prediction)
        slope, curvature = program.operator.adjoint(residual), self.ease * state.curvature
        for _ in range(60):
            stack, values = program.gauge.prox(state.stack - slope / curvature, program.beta / curvature)
            prediction = program.operator.forward(stack)
            model = base + (residual * (prediction - state.prediction)).sum()
            if program.loss.value(prediction) <= model + curvature / 2 * (stack - state.stack).square().sum() + 1e-13:
                break
            curvature *= 2
        return Iterate(stack, values, prediction, curvature)

    def point(self, program: Program[ProxGauge], state: Iterate) -> Point:
        return Point(state.prediction, float(state.values.sum()), lambda: program.gauge.factorise(state.stack))
