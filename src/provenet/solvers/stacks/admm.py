"""ADMM in graph form on the gated kernel (any loss).

    min βγ(a) + L(b)   subject to   a = z, b = A(z)

Projecting onto the graph {(z, A z)} takes one factorisation of κW⁻¹ + K, K = AA* (n × n), for all output columns.
After each projection the scaled multipliers are u = A*s and v = −κW⁻¹s for one s of the predictions' size.  A step is:
one prox of the gauge, one A on its (sparse) result, one solve, one A*.  A quadratic loss needs no copy b: it joins
the projection.  Products and solves are of differences between two steps, in float32 where the ridge allows, and added
up in float64: their errors are relative to a step, and go as steps do.  A free intercept is one more unknown of the
graph, b = A(z) + 1cᵀ, so that 1ᵀs = 0.  Samples are weighted in the metric too, so that a weight of two is a sample
repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from provenet.gauges import ProxGauge
from provenet.problem import Program, Units
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import KERNEL, PROX, UNPAID
from provenet.solvers.offers import Offer, Task
from provenet.solvers.stacks.active import ActiveForward
from provenet.solvers.stacks.kernel import KernelSolve, pays
from provenet.solvers.stacks.scale import gradient_curvature
from provenet.variable import Factors, Stack

_FACTORISATIONS = 4  # until ρ has settled
_PROX = 3e6  # work of a loss's prox that is found by Newton's steps, for each output, however few rows
_READ = 16  # a factor of the kernel is read, entry by entry, as slowly as so many products
_SINGLE = 0.5, 8  # in float32: so much of the work, and of the products
_LEAST = 10  # steps a digit, however easy: ρ has to settle
_FREE, _FREE_LABELS = 1.6, 4.4  # times as many steps with a free intercept, and where the loss is of labels;
_ENTRY = 2e3  # of a prediction: what a prox of labels takes
_ANEW = 20  # steps after which what was added up is made anew
_MOST_ROWS = 20_000  # of a kernel that is worth its factorisation


@dataclass(frozen=True)
class ADMMState:
    solve: KernelSolve
    rho: float
    metric: Tensor  # (n,) how stiffly each sample's copy b_i is tied to A(z)_i, in units of ρ
    a: Stack  # the gauge's copy: sparse, low rank; the point that is returned
    values: Tensor  # (P,) γ of its blocks
    prediction: Tensor  # A(a)
    z: Stack  # the graph's copy
    y: Tensor  # A(z), with a free intercept if there is one
    s: Tensor  # the multiplier; Θ = −ρs estimates the dual solution
    u: Stack  # A*s
    summed: bool  # whether prediction and u are sums of differences
    active: ActiveForward
    steps: int
    next_balance: int
    near: Any = None  # where the last prox ended


@dataclass(frozen=True)
class ADMM(Method[ADMMState]):
    """rho: of ρ/2‖a − z‖²; None: matched to β.  relaxation: over-relaxation in (0, 2).  first_balance: step of the
    first residual balancing; each later one comes after twice as many steps, so that ρ settles and the method
    converges."""

    rho: float | None = None
    relaxation: float = 1.7
    first_balance: int = 10

    name, family = "admm", "admm"
    needs = (PROX, KERNEL, UNPAID)
    check_every = 5
    patience = 30

    def in_units(self, units: Units) -> ADMM:
        return self if self.rho is None else replace(self, rho=self.rho * units.z**2 / units.value)

    def memory(self, program: Program[Any]) -> int:
        op = program.operator
        n, single = op.kernel_rows, op.held_bytes // 2 + 4 * op.kernel_rows * op.p
        return n * n * op.dtype.itemsize + 7 * op.stack_bytes + single

    def offer(self, task: Task) -> Offer:
        """A few factorisations of the kernel, then a prox, A, A* and a solve a step.  Gates that stay closed hold it up
        as much as others do, and a large β makes it no quicker.  With one gate it is quick, however wide second layers
        are."""
        op, loss = task.program.operator, task.program.loss
        rows = task.rows
        setup = 0.5 * rows**2 * op.n_gates * min(op.p, 1 + op.p / op.n_gates) + _FACTORISATIONS * rows**3 / 12
        easy = loss.quadratic and min(op.q, op.n_gates) == 1
        steps = (12 if easy else 17) * task.decades * max(task.hardship, 1.0) ** 1.3
        steps *= (1 + task.crowding) ** 0.6 * ((op.q / op.p) ** 0.4 if op.n_gates > 1 else 1.0)
        steps = max(steps, _LEAST * task.decades) if pays(op) else steps
        c = op.output_shape[-1]
        prox = _PROX * (1 + c) + _ENTRY * rows * c if task.labels else 0.0
        if loss.free:
            steps *= _FREE_LABELS if task.labels else _FREE
        share, read = _SINGLE if pays(op) else (1.0, _READ)
        step = share * (2 * task.product + rows**2 * (c + read)) + task.prox + prox
        starts = rows <= _MOST_ROWS and not task.only_neurons
        return Offer(self.memory(task.program), share * setup, step, steps, starts)

    def ends(self, program: Program[Any]) -> bool:
        return False  # its last digits may take very long

    def init(self, program: Program[ProxGauge], start: Factors | None) -> ADMMState:
        op, loss = program.operator, program.loss
        solve = KernelSolve.of(op, loss.constant)
        a = op.new_stack() if start is None else start.stack(op.n_gates)
        prediction = op.forward(a)
        y = loss.at_best(prediction)
        metric = loss.sample_weight * loss.local_curvature(prediction)
        rho = self.rho or _matched_ridge(program, solve, metric, prediction)
        solve = solve.at(rho / metric)
        s = loss.gradient(prediction) / -rho
        values, active = program.gauge.values(a), ActiveForward(op)
        return ADMMState(
            solve, rho, metric, a, values, prediction, a, y, s, op.adjoint(s), False, active, 0, self.first_balance
        )

    def step(self, program: Program[ProxGauge], state: ADMMState) -> ADMMState:
        loss, solve = program.loss, state.solve
        a, values, near = program.gauge.prox_near(state.z + state.u, program.beta / state.rho, state.near)
        summed = solve.single and (state.steps + 1) % _ANEW != 0
        operator = solve.operator if summed else program.operator
        active = state.active if state.active.operator is operator else ActiveForward(operator)
        if summed:
            moved_by, active = active.forward((a - state.a).to(operator.dtype), values + state.values)
            prediction = state.prediction + moved_by
        else:
            prediction, active = active.forward(a, values)
        if loss.quadratic:
            b = state.y
        else:
            b = loss.plain.prox(state.y - solve.ridge_times(state.s), 1 / state.metric.view_as(loss.weight))
        s = state.s + self.relaxation * solve(b - prediction)
        u = state.u + operator.adjoint((s - state.s).to(operator.dtype)) if summed else operator.adjoint(s)
        z = torch.lerp(state.z, a, self.relaxation).add_(u).sub_(state.u)
        if loss.quadratic:
            y = loss.target - solve.ridge_times(s)
        else:
            y = torch.lerp(state.y, b, self.relaxation) + solve.ridge_times(state.s - s)
        moved = replace(
            state,
            a=a,
            values=values,
            prediction=prediction,
            z=z,
            y=y,
            s=s,
            u=u,
            summed=summed,
            active=active,
            steps=state.steps + 1,
            near=near,
        )
        return self._balance(program, state, moved) if moved.steps == state.next_balance else moved

    def _balance(self, program: Program[ProxGauge], old: ADMMState, new: ADMMState) -> ADMMState:
        """Residual balancing: ρ grows where the copies disagree more than they move.  Θ = −ρs is kept."""
        disagreement = float(torch.linalg.vector_norm(new.z - new.a)) / _size(new.z, new.a)
        movement = float(torch.linalg.vector_norm(new.a - old.a)) / _size(new.u)
        next_balance = max(new.steps + 5, 2 * new.steps)
        ratio = math.sqrt(disagreement / movement) if movement > 0 and disagreement > 0 else 1.0
        ratio = min(max(ratio, 0.1), 10.0)
        if 0.7 < ratio < 1.4 and program.loss.quadratic:
            return replace(new, next_balance=next_balance)
        metric = program.loss.sample_weight * program.loss.local_curvature(new.prediction)
        rho = max(new.rho * ratio, _least_rho(new.solve, metric))
        ratio = rho / new.rho
        solve, s, u = new.solve.at(rho / metric), new.s / ratio, new.u / ratio
        return replace(new, solve=solve, rho=rho, metric=metric, s=s, u=u, next_balance=next_balance)

    def point(self, program: Program[ProxGauge], state: ADMMState) -> Point:
        prediction = state.prediction
        if state.summed:
            prediction, _ = ActiveForward(program.operator).forward(state.a, state.values)
        return Point(prediction, float(state.values.sum()), lambda: program.gauge.factorise(state.a))


def _matched_ridge(program: Program[ProxGauge], solve: KernelSolve, metric: Tensor, prediction: Tensor) -> float:
    """The ρ whose ridge solution just meets the dual constraint: γ°(A*Θ) = β for Θ = −ρ(ρM⁻¹ + K)⁻¹b.

    b is where the loss, as a parabola of curvature M around the prediction, has its minimum.  Ridge regression and the
    gauge then agree on how much to shrink.  log γ° grows in log ρ with a slope between 0 and 1, so a few secant steps
    find ρ as well as is needed.
    """
    loss = program.loss
    if program.beta_max == 0:
        return 1.0
    rhs = prediction - loss.gradient(prediction) / metric.view_as(loss.weight)
    least = _least_rho(solve, metric)
    guess = gradient_curvature(program) * min(program.beta / program.beta_max, 1.0)
    log_rho, slope, before = math.log(max(guess, least)), 1.0, None
    for _ in range(6):
        rho = max(math.exp(log_rho), least)
        polar = rho * float(program.polar(solve.at(rho / metric)(rhs)).upper.max())
        excess = math.log(polar / program.beta)
        if abs(excess) < 1:
            break
        if before is not None:
            slope = min(max((excess - before[1]) / (log_rho - before[0]), 0.3), 1.0)
        before = (log_rho, excess)
        log_rho -= excess / slope
    return rho


def _least_rho(solve: KernelSolve, metric: Tensor) -> float:
    """Below it the ridge would drown in the rounding of the kernel's factorisation."""
    return 1e-12 * solve.trace(metric)


def _size(*stacks: Stack) -> float:
    return max(max(float(torch.linalg.vector_norm(s)) for s in stacks), 1e-300)
