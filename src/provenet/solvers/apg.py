"""Accelerated proximal gradient (FISTA) with line search and restart: needs no kernel, only A and A*."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.active import ActiveForward
from provenet.solvers.loop import Method, Point
from provenet.variable import Factors, Stack


@dataclass(frozen=True)
class APGState:
    z: Stack
    prediction: Tensor  # A(z)
    penalty: float
    ahead: Stack  # the extrapolated point
    ahead_prediction: Tensor
    momentum: float
    lipschitz: float
    active: ActiveForward


@dataclass(frozen=True)
class APG(Method[APGState]):
    """The step length 1/L is found by doubling L, and tried longer after each step (Beck and Teboulle 2009); the
    momentum restarts when it points uphill (O'Donoghue and Candès 2015)."""

    shrink: float = 0.95

    name = "apg"
    check_every = 20
    patience = 100
    max_steps = 50_000

    def refuses(self, program: Program) -> str | None:
        return None

    def memory(self, program: Program) -> int:
        return 6 * program.operator.stack_bytes

    def init(self, program: Program, start: Factors | None) -> APGState:
        op = program.operator
        z = op.new_stack() if start is None else start.stack(op.n_gates)
        prediction = op.forward(z)
        lipschitz = 1e-3 * program.loss.smoothness() * op.norm_upper() ** 2
        penalty = float(program.gauge.value(z))
        return APGState(z, prediction, penalty, z, prediction, 1.0, max(lipschitz, 1e-300), ActiveForward(op))

    def step(self, program: Program, state: APGState) -> APGState:
        op, loss = program.operator, program.loss
        residual = loss.gradient(state.ahead_prediction)
        slope = op.adjoint(residual)
        base = float(loss.value(state.ahead_prediction))
        lipschitz = state.lipschitz * self.shrink
        while True:
            z, values = program.gauge.prox(state.ahead - slope / lipschitz, program.beta / lipschitz)
            prediction, active = state.active.forward(z, values)
            moved = z - state.ahead
            quadratic = 0.5 * lipschitz * float(moved.square().sum())
            model = base + float((residual * (prediction - state.ahead_prediction)).sum()) + quadratic
            value = float(loss.value(prediction))
            # a hair of rounding: near the end both sides agree to all digits
            if value <= model + 1e-13 * abs(base) or not math.isfinite(value):
                break
            lipschitz *= 2
        uphill = float((moved * (state.z - z)).sum()) > 0
        momentum = 1.0 if uphill else 0.5 * (1 + math.sqrt(1 + 4 * state.momentum**2))
        weight = 0.0 if uphill else (state.momentum - 1) / momentum
        return APGState(
            z=z,
            prediction=prediction,
            penalty=float(values.sum()),
            ahead=torch.lerp(state.z, z, 1 + weight),
            ahead_prediction=torch.lerp(state.prediction, prediction, 1 + weight),
            momentum=momentum,
            lipschitz=lipschitz,
            active=active,
        )

    def point(self, program: Program, state: APGState) -> Point:
        return Point(state.prediction, state.penalty, lambda: program.gauge.factorise(state.z))
