"""CP Algorithm 1 as the paper has it, with the search over t of CP eq. 14 around it.

    p(t) = min L(A(Z)) + βt   over   Σ_k ‖Z_k‖_{*,K} ≤ t

From Z = 0, step k adds the neuron of the most violated arrangement:  Z ← (1 − α)Z + αt·u gᵀ,  α = 2/(2 + k).  p is
convex, and its slope at t is β − max_k γ_k°(∇): so a bisection.  A step is halved in t once Frank–Wolfe's own gap is
a small part of what is at stake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from provenet.gauges import ConeNuclear
from provenet.problem import Program
from provenet.solvers.bm_factors import Place, place, sizes
from provenet.variable import Factors

_INNER = 0.1  # of |polar − β|·t: an inner gap below it tells on which side of t the best t is
_DUST = 1e-10  # of t: neurons that have faded below it go
_SAME = 1e-14  # 1 − cos of first layers that are one neuron's


@dataclass(frozen=True)
class ClassicState:
    """low ≤ t* ≤ high; ``total`` is the t at work, ``steps`` those taken with it, ``fixed``: t is the caller's."""

    place: Place
    total: float
    low: float
    high: float
    fixed: bool
    steps: int = 0


def classic_start(program: Program, at: Place, total: float | None) -> ClassicState:
    """β t* ≤ L(0): what zero weights cost bounds the best t."""
    high = float(program.loss.value(torch.zeros_like(at.prediction))) / program.beta
    own = float(at.factors.penalty())
    first = total if total is not None else own if own > 0 else 0.5 * high
    return ClassicState(at, min(first, high) if total is None else first, 0.0, high, total is not None)


def classic_step(program: Program, gauge: ConeNuclear, state: ClassicState) -> ClassicState:
    theta = program.loss.gradient(state.place.prediction)
    slope = program.operator.adjoint(theta)
    gates, lefts, rights = gauge.violated(-slope, 0.0)
    if gates.numel() == 0:
        return state
    gate, u, v = gates[:1], lefts[:1], rights[:1]
    largest = float((u[0] @ slope[gate[0]] @ v[0]).abs())
    inner_gap = state.total * largest + float((theta * state.place.prediction).sum())
    if not state.fixed and state.steps > 0 and inner_gap <= _INNER * abs(largest - program.beta) * state.total:
        return _halved(program, state, too_small=largest > program.beta)
    alpha = 2 / (2 + state.steps)
    old = state.place.factors.scaled((1 - alpha) ** 0.5)
    new = Factors(u, v, gate).scaled((alpha * state.total) ** 0.5)
    there = place(program, _one_of_each(old.select(sizes(old) > _DUST * state.total), new))
    return replace(state, place=there, steps=state.steps + 1)


def _halved(program: Program, state: ClassicState, too_small: bool) -> ClassicState:
    low, high = (state.total, state.high) if too_small else (state.low, state.total)
    total = 0.5 * (low + high)
    scaled = state.place.factors.scaled((total / state.total) ** 0.5)
    # a warm start: as far along as its inner gap says, so that the next steps do not undo it
    return ClassicState(place(program, scaled), total, low, high, False, steps=max(state.steps // 2, 1))


def _one_of_each(old: Factors, new: Factors) -> Factors:
    """Both; the new neuron is added to an old one with its direction u and gate, which only lowers the penalty."""
    length = torch.linalg.vector_norm(old.left, dim=1)
    cosine = (old.left @ new.left[0]) / (length * torch.linalg.vector_norm(new.left)).clamp_min(1e-300)
    same = torch.nonzero((cosine >= 1 - _SAME) & (old.gate == new.gate)).flatten()
    if same.numel() == 0:
        return Factors.join(old, new)
    j = same[:1]
    u = old.left[j] / length[j, None]
    v = old.right[j] * length[j, None] + new.right * torch.linalg.vector_norm(new.left)
    size = torch.linalg.vector_norm(v)
    if float(size) == 0:
        return old.select(torch.arange(old.n_neurons) != j)
    left, right = old.left.clone(), old.right.clone()
    left[j], right[j] = u * size.sqrt(), v / size.sqrt()
    return Factors(left, right, old.gate)
