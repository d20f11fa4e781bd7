"""Accelerated proximal gradient (FISTA) with line search, restart and a working set of gates.

Needs no kernel, only A and A*.  Few gates are open at the optimum, so it works on the open ones and those that want to
open; at each look all gates are priced by their polar, and the working set follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import Gap
from provenet.gauges import ProxGauge
from provenet.problem import Program
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import NUCLEAR, PROX
from provenet.solvers.offers import Offer, Task
from provenet.solvers.stacks.active import BULKY_BYTES, ActiveForward
from provenet.solvers.stacks.scale import gradient_curvature
from provenet.variable import Factors, Stack

_NEAR = 0.99  # of β: a closed gate whose polar is above it may open soon
_DOUBLINGS = 200  # of L, in a step
_HAIR = 1e-15  # of a prediction: what rounding may change in it
_CALLS = 3e6  # what the calls of a step take beyond those of others
_SHIFTED = 4e3  # work for each entry of a prediction, where labels have a free intercept: it is sought at every trial
_UNEVEN = 0.75  # the power of how uneven X is, by which steps grow
_WORKING = 2  # times as many gates as are open are worked on, about
_ENTERING = 0.25  # of all gates: so many closed ones may enter at a look, those with the largest polar


@dataclass(frozen=True)
class APGState:
    gates: Tensor  # the working set, and the program on it
    local: Program[ProxGauge]
    active: ActiveForward
    z: Stack
    values: Tensor  # γ(z_k)
    prediction: Tensor  # A(z)
    ahead: Stack  # the extrapolated point
    ahead_prediction: Tensor
    momentum: float
    lipschitz: float


@dataclass(frozen=True)
class APG(Method[APGState]):
    """The step length 1/L is found by doubling L, and tried longer after each step (Beck and Teboulle 2009); the
    momentum restarts when it points uphill (O'Donoghue and Candès 2015)."""

    shrink: float = 0.95

    name = "apg"
    needs = (PROX,)
    check_every = 10
    patience = 40
    max_steps = 50_000

    def memory(self, program: Program) -> int:
        return 6 * program.operator.stack_bytes

    def offer(self, task: Task) -> Offer:
        """A and A* on the gates in use, now and then a step once more, and all gates at each look.  Few steps where
        there are many rows for each weight, whatever β and noise are; it crawls where curvature is far from even.
        Norms other than weight decay's have nothing else to finish."""
        op, loss, crowding = task.program.operator, task.program.loss, task.open_crowding
        bent = 1 + crowding**2 / (5 if loss.quadratic else 100)
        each = 24 + 70 * min(1.0, (8 * crowding * task.width) ** 0.5) * bent
        hard = task.hardship ** (0.75 if task.hardship < 1 else 0.5 * min(task.crowding, 1.0))
        if op.n_gates == 1 and op.gated_rows is not None:
            each *= (0.25 if loss.quadratic else 0.5) * task.evenness**-_UNEVEN  # the curvature of X alone
        noise = task.noise ** (min(1.0, crowding**2) if task.noise > 1 else 1.0)
        steps = each * task.width**0.35 * task.decades * hard * noise
        used = min(1.0, _WORKING * task.open_share)
        step = (2 * used + 2 / self.check_every) * task.product + used * task.prox + _CALLS + task.intercept
        if loss.free and not loss.quadratic:
            step += _SHIFTED * task.rows * op.output_shape[-1]
        finishes = not NUCLEAR.of(task.program)
        return Offer(self.memory(task.program), 0.0, step, steps, not task.only_neurons, finishes)

    def init(self, program: Program[ProxGauge], start: Factors | None) -> APGState:
        op = program.operator
        z = op.new_stack() if start is None else start.stack(op.n_gates)
        prediction = op.space.zeros(*op.output_shape) if start is None else op.forward_factors(start)
        lipschitz = max(1e-2 * gradient_curvature(program), 1e-300)
        everything = op.space.arange(op.n_gates)
        values = program.gauge.values(z)
        return APGState(everything, program, ActiveForward(op), z, values, prediction, z, prediction, 1.0, lipschitz)

    def step(self, program: Program[ProxGauge], state: APGState) -> APGState:
        local, loss = state.local, program.loss
        residual = loss.gradient(state.ahead_prediction)
        slope = local.operator.adjoint(residual)
        base = float(loss.value(state.ahead_prediction))
        lipschitz, smoothness = state.lipschitz * self.shrink, loss.smoothness()
        for _ in range(_DOUBLINGS):
            z, values = local.gauge.prox(state.ahead - slope / lipschitz, local.beta / lipschitz)
            prediction, active = state.active.forward(z, values)
            moved = z - state.ahead
            quadratic = 0.5 * lipschitz * float(moved.square().sum())
            model = base + float((residual * (prediction - state.ahead_prediction)).sum()) + quadratic
            value = float(loss.value(prediction))
            # a hair of rounding: near the end both sides agree to all digits, and predictions to theirs
            hair = 1e-13 * abs(base) + smoothness * float((_HAIR * prediction).square().sum())
            if value <= model + hair or not math.isfinite(value) or deadline.over():
                break
            lipschitz *= 2
        uphill = float((moved * (state.z - z)).sum()) > 0
        momentum = 1.0 if uphill else 0.5 * (1 + math.sqrt(1 + 4 * state.momentum**2))
        weight = 0.0 if uphill else (state.momentum - 1) / momentum
        return replace(
            state,
            active=active,
            z=z,
            values=values,
            prediction=prediction,
            ahead=torch.lerp(state.z, z, 1 + weight),
            ahead_prediction=torch.lerp(state.prediction, prediction, 1 + weight),
            momentum=momentum,
            lipschitz=lipschitz,
        )

    def look(self, program: Program[ProxGauge], state: APGState, gap: Gap) -> APGState:
        """Price all gates; work on those that are open and those that most want to be."""
        if program.operator.n_gates == 1 or program.operator.held_bytes > BULKY_BYTES:
            return state
        polar = program.polar(-program.loss.gradient(state.prediction)).upper  # what each gate would gain
        is_open = torch.zeros_like(polar, dtype=torch.bool)
        is_open[state.gates[(state.values > 0) | (state.ahead.abs().amax(dim=(1, 2)) > 0)]] = True
        price = torch.where(is_open, 0.0, polar)
        entering = torch.topk(price, math.ceil(_ENTERING * len(polar))).indices
        wanted = is_open.clone()
        wanted[entering[price[entering] > _NEAR * program.beta]] = True
        gates = torch.nonzero(wanted).flatten()
        known = torch.isin(gates, state.gates)
        if bool(known.all()) and gates.numel() > 0.8 * state.gates.numel():
            return state
        place = torch.searchsorted(state.gates, gates[known])

        def carried(stack: Tensor) -> Tensor:
            moved = stack.new_zeros(gates.numel(), *stack.shape[1:])
            moved[known] = stack[place]
            return moved

        local = program.restrict(gates)
        return replace(
            state,
            gates=gates,
            local=local,
            active=ActiveForward(local.operator),
            z=carried(state.z),
            values=carried(state.values),
            ahead=carried(state.ahead),
        )

    def point(self, program: Program[ProxGauge], state: APGState) -> Point:
        return Point(state.prediction, float(state.values.sum()), lambda: self._factors(state))

    def _factors(self, state: APGState) -> Factors:
        """The neurons of the working set, by the names that all gates know theirs by."""
        factors = state.local.gauge.factorise(state.z)
        return replace(factors, gate=state.gates[factors.gate])
