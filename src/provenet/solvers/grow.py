"""Gates that grow: solve, look for gates that pull harder than β, add them, solve on from there (column generation).

Whatever a neuron's first layer u, the pull f(u) = ‖Σ_r σ(Φ_r u) M_r‖ of a ReLU neuron bounds from below what its own
gate can gain (CP (11), escape in BM §3.3).  New gates come from ascents of f from the neurons' own first layers and
from random directions; those that pull harder than β are taken.  That no ascent finds another one proves nothing: the
certificate is of the gates there are in the end.  Of ReLU, where the pull over all u can be bounded (`widen`), gates
are added until that bound is β, and the certificate is then of all networks of the block.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.formulation import pose
from provenet.formulation.trainee import BlockTrainee
from provenet.gates import pattern_keys
from provenet.gates.pool import Pool
from provenet.problem import Problem
from provenet.solvers.loop import Limits
from provenet.solvers.solution import Solution
from provenet.solvers.status import Status
from provenet.solvers.widen import widened
from provenet.variable import Factors
from provenet.vectors import unit

_ROUNDS = 20
_LAST_ROUNDS = 10  # of ReLU, at the tolerance that was asked for
_CHANCES = 32  # random directions to climb from, in each group
_OWN = 64  # neurons to climb from, the largest
_STEPS = 20
_ON_THE_WAY = 1e-2  # the gap at which gates are priced; the last solve goes further
_AT_A_TIME = 0.5  # of the gates there are: how many are added in a round, at most

Solve = Callable[[Problem, Factors | None, Limits], Solution]
"""(problem, start, limits) ↦ solution."""


def grown(solve: Solve, problem: Problem, start: Factors | None, limits: Limits) -> Solution:
    """The solution of the problem with the gates it has in the end, at most ``problem.growth`` in each group; where the
    limits end it, with those of the last solution."""
    began, steps = time.perf_counter(), 0

    def left(tol: float) -> Limits:
        seconds = None if limits.max_seconds is None else limits.max_seconds - (time.perf_counter() - began)
        return Limits(tol, None if limits.max_steps is None else max(limits.max_steps - steps, 0), seconds)

    rough = max(limits.tol, _ON_THE_WAY)
    for turn in range(_ROUNDS):
        solution = solve(problem, start, left(rough))
        start, steps = solution.factors, steps + solution.steps
        late = limits.max_seconds is not None and time.perf_counter() - began > 0.5 * limits.max_seconds
        if solution.status is Status.INTERRUPTED or late or left(rough).max_steps == 0:
            break
        with deadline.within(left(rough).max_seconds):
            more = _with_more(problem, solution, rough, seed=turn)
        if more is None:
            break
        start, problem = _carried(start, problem, more), more
    rest = left(limits.tol)
    if not (
        _over(rest) or solution.status is Status.INTERRUPTED or (problem is solution.problem and rough == limits.tol)
    ):
        solution = solve(problem, start, rest)
        steps += solution.steps
    for turn in range(_ROUNDS, _ROUNDS + _LAST_ROUNDS):
        if solution.status is not Status.SOLVED or left(limits.tol).max_steps == 0:
            break
        with deadline.within(left(limits.tol).max_seconds):
            wide = widened(solution, limits.tol)
            more = None if wide.u is None or wide.holds else _with_more(problem, solution, limits.tol, turn, wide.u)
        solution = wide.solution
        if more is None or _over(left(limits.tol)):
            break
        last = solve(more, _carried(solution.factors, problem, more), left(limits.tol))
        steps += last.steps
        if last.status is not Status.SOLVED:  # cut short: what was solved before stands
            break
        solution, problem = last, more
    return replace(solution, steps=steps, seconds=time.perf_counter() - began)


def _over(left: Limits) -> bool:
    return left.max_steps == 0 or (left.max_seconds is not None and left.max_seconds <= 0)


def _with_more(
    problem: Problem, solution: Solution, tol: float, seed: int, known: Tensor | None = None
) -> Problem | None:
    """The problem with gates that pull harder than β; None where none is found, or there is no room.

    known (k, p): directions to climb from besides others, in the first group."""
    old = problem.gate_vectors
    assert old is not None
    assert problem.growth is not None
    on, program = problem.on_data, problem.program
    theta = -program.loss.gradient(program.operator.forward_factors(solution.factors))
    trainee = BlockTrainee(on, program.loss, program.beta, problem.units)
    group = problem.gates.own
    directions, own = _starts(solution.factors, group, on.p, len(on.groups), seed)
    if known is not None:
        directions, own = torch.cat([known, directions]), torch.cat([own.new_zeros(len(known)), own])
    directions, strength = _climbed(trainee, directions, own, theta)
    fresh, whose = [], []
    for b, rows in enumerate(on.groups):
        mine = torch.nonzero(group == b).flatten()
        room = min(problem.growth, len(mine) + max(1, int(_AT_A_TIME * len(mine))))
        pool = Pool(rows, room)
        pool.add(old[mine])
        strong = torch.nonzero((own == b) & (strength > program.beta * (1 + tol))).flatten()
        ranked = directions[strong[torch.argsort(strength[strong], descending=True, stable=True)]]
        taken = ranked[pool.add(ranked)]
        fresh.append(taken)
        whose.append(torch.full((len(taken),), b))
    if not sum(map(len, fresh)):
        return None
    vectors = torch.cat([old, *fresh])
    groups = torch.cat([group, *whose]) if len(on.groups) > 1 else None
    loss = problem.loss
    more = pose(
        problem.statement,
        problem.X,
        loss.target,
        vectors,
        sample_weight=loss.sample_weight,
        mask=problem.mask,
        gate_group=groups,
    )
    return replace(more, growth=problem.growth, scaling=problem.scaling)


def _starts(factors: Factors, group: Tensor, p: int, groups: int, seed: int) -> tuple[Tensor, Tensor]:
    """Unit directions (m, p) to climb from, and the group (m,) of each: the largest neurons', and random ones."""
    largest = torch.argsort(factors.sizes(), descending=True, stable=True)[:_OWN]
    generator = torch.Generator().manual_seed(seed)
    chance = torch.randn(groups * _CHANCES, p, generator=generator, dtype=torch.float64)
    directions = torch.cat([factors.left[largest].to(torch.float64), chance])
    own = torch.cat([group[factors.gate[largest]], torch.arange(groups).repeat_interleave(_CHANCES)])
    return unit(directions), own


def _climbed(trainee: BlockTrainee, u: Tensor, group: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Ascents of f from unit u (m, p), steps halved where f would fall: (u, f(u) (m,))."""
    network = trainee.network(group)
    strength, slope = _pull(network, u, theta, trainee.q)
    step = torch.ones_like(strength)
    for _ in range(_STEPS):
        if deadline.over():
            break
        trial = unit(u + step[:, None] * slope)
        there, next_slope = _pull(network, trial, theta, trainee.q)
        better = there > strength
        u, slope = torch.where(better[:, None], trial, u), torch.where(better[:, None], next_slope, slope)
        strength = torch.where(better, there, strength)
        step = torch.where(better, 1.5 * step, 0.5 * step)
    return u, strength


def _pull(network: Callable[[Tensor, Tensor], Tensor], u: Tensor, theta: Tensor, q: int) -> tuple[Tensor, Tensor]:
    """f(u) (m,), and its direction of steepest ascent (m, p), of unit length.

    Outputs are sums over neurons, linear in second layers: the gradient by these of ⟨Θ, outputs⟩ is each one's pull."""
    second = u.new_zeros(len(u), q).requires_grad_()
    with torch.enable_grad():
        (pulls,) = torch.autograd.grad((network(u, second) * theta).sum(), second)
        first = u.clone().requires_grad_()
        said = (network(first, unit(pulls)) * theta).sum()
        (slope,) = torch.autograd.grad(said, first)
    return torch.linalg.vector_norm(pulls, dim=1), unit(slope)


def _carried(factors: Factors, old: Problem, new: Problem) -> Factors:
    """Neurons behind the same gates of the problem with more of them."""

    def keys(problem: Problem) -> list[tuple[int, bytes]]:
        return list(zip(problem.gates.own.tolist(), pattern_keys(problem.patterns), strict=True))

    known = {key: k for k, key in enumerate(keys(new))}
    place = torch.tensor([known[key] for key in keys(old)], dtype=torch.long)
    return replace(factors, gate=place[factors.gate])
