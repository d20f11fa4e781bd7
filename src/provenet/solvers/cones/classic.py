"""CP Algorithm 1 as the paper has it, with the search over t of CP eq. 14 around it.

    p(t) = min L(A(Z)) + βt   over   Σ_k ‖Z_k‖_{*,K} ≤ t

From Z = 0, step k adds the neuron of the most violated arrangement:  Z ← (1 − α)Z + αt·u gᵀ,  α = 2/(2 + k).  p is
convex, and its slope at t is β − max_k γ_k°(∇): so t* is where the largest polar is β.  The search moves t once
Frank–Wolfe's own gap is a small part of what is at stake: by halves, as the paper says, or towards where the polars
seen so far say that it is.

The paper's rate: after k steps p(t) is within 2C/(k + 2) of its least value, C ≤ (2tσ)² for the squared loss, where σ
bounds what a unit neuron predicts.  In units of the objective that is the more, the smaller β is, as t grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.cones.exact import Faces
from provenet.gauges import ConeGauge
from provenet.gauges.spectral import spectral_norms
from provenet.problem import Program, Units
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import CONES
from provenet.solvers.neurons.place import Place, place
from provenet.variable import Factors, Stack
from provenet.vectors import unit

_INNER = 0.3  # of |polar − β|·t: an inner gap below it tells on which side of t the best t is
_DUST = 1e-10  # of t: neurons that have faded below it go
_SAME = 1e-14  # 1 − cos of first layers that are one neuron's
_FARTHEST = 4.0  # times t, where no upper end has been tried yet
_MARGIN = 0.1  # of the bracket: the next t is no closer to its ends
_CHUNK, _CHEAP_CHUNK = 16, 512  # gates asked at a time; where their answer has a formula
_LIMIT = 1e-300


@dataclass(frozen=True)
class ClassicState:
    """``atoms``: unit u, with g of the neuron's size.  low ≤ t* ≤ high, where the largest polars were β·exp(excess);
    ``total`` is the t at work, ``steps`` those taken with it, ``fixed``: t is the caller's; ``halves``: t
    is searched for by bisection."""

    atoms: Factors
    prediction: Tensor
    total: float
    low: tuple[float, float]
    high: tuple[float, float]
    fixed: bool
    halves: bool = False
    steps: int = 0


@dataclass(frozen=True)
class ClassicFrankWolfe(Method[ClassicState]):
    """total: the bound t of Σ‖u_j‖‖v_j‖ in CP eq. 14, in the user's units; None: it is searched for, by halves of its
    bracket with ``bisection``, else also by its slope.  check_every: steps between two looks at the gap; with 1 the
    history has objective and bound, and so the distance from the optimum, of every step."""

    total: float | None = None
    bisection: bool = False
    check_every: int = 50

    name = "classic_frank_wolfe"
    needs = (CONES,)
    patience = 200
    max_steps = 30_000

    def __post_init__(self) -> None:
        if self.total is not None and not 0 < self.total < math.inf:
            raise ValueError(f"total: it must be a positive, finite number, got {self.total!r}.")

    def in_units(self, units: Units) -> ClassicFrankWolfe:
        return self if self.total is None else replace(self, total=self.total / units.z)

    def init(self, program: Program[ConeGauge], start: Factors | None) -> ClassicState:
        first = _first(program, program.gauge, place(program, start or program.nobody), self.total)
        return replace(first, halves=self.bisection)

    def step(self, program: Program[ConeGauge], state: ClassicState) -> ClassicState:
        return _next(program, program.gauge, state)

    def point(self, program: Program[ConeGauge], state: ClassicState) -> Point:
        """The neurons, both layers of one length, and Σ ‖u_j‖‖v_j‖."""
        return Point(state.prediction, float(state.atoms.sizes().sum()), state.atoms.balanced)


def _first(program: Program, gauge: ConeGauge, at: Place, total: float | None) -> ClassicState:
    """β t* ≤ L(0): what zero weights cost bounds the best t."""
    zero = torch.zeros_like(at.prediction)
    high = float(program.loss.value(zero)) / program.beta
    low = (0.0, math.log(max(program.beta_max / program.beta, 1.0)))
    own = float(at.factors.penalty())
    first = total if total is not None else min(own, high) if own > 0 else _first_total(program, gauge, high)
    return ClassicState(at.factors.with_unit_left(), at.prediction, first, low, (high, -math.inf), total is not None)


def _first_total(program: Program, gauge: ConeGauge, high: float) -> float:
    """As much of the first neuron as is best by itself: t* is rarely less."""
    op, loss = program.operator, program.loss
    zero = torch.zeros_like(loss.target)
    theta = loss.gradient(zero)
    atom = largest_atom(gauge, op.adjoint(-theta))
    column = op.forward_factors(atom)
    bend = float((column * loss.hessian_product(zero, column)).sum())
    pull = -float((theta * column).sum()) - program.beta
    return min(max(pull / max(bend, _LIMIT), 1e-6 * high), 0.5 * high)


def _next(program: Program, gauge: ConeGauge, state: ClassicState) -> ClassicState:
    theta = program.loss.gradient(state.prediction)
    atom = largest_atom(gauge, program.operator.adjoint(-theta))
    column = program.operator.forward_factors(atom)
    largest = -float((theta * column).sum())
    inner_gap = state.total * largest + float((theta * state.prediction).sum())
    if not state.fixed and state.steps > 0 and inner_gap <= _INNER * abs(largest - program.beta) * state.total:
        return _moved(state, math.log(max(largest, _LIMIT) / program.beta))
    alpha = 2 / (2 + state.steps)
    old = replace(state.atoms, right=state.atoms.right * (1 - alpha))
    atoms = _one_of_each(old, atom, alpha * state.total)
    prediction = torch.lerp(state.prediction, column * state.total, alpha)
    return replace(state, atoms=atoms, prediction=prediction, steps=state.steps + 1)


def largest_atom(gauge: ConeGauge, stack: Stack) -> Factors:
    """The unit (u, g) with the largest uᵀG_kg over all gates and their cones, as one neuron."""
    tables = gauge.region.tables if stack.shape[1] == 2 else ()
    if len(tables) == 1 and len(tables[0][0]) == len(stack):  # the rows of all gates are written down
        gate, u = _planar(tables[0][1].faces, stack)
    else:
        gate, u = _searched(gauge, stack)
    pull = u @ stack[gate]
    return Factors(u[None], unit(pull)[None], torch.tensor([gate]))


def _planar(faces: Faces, stack: Stack) -> tuple[int, Tensor]:
    """In the plane: the two rays of each cone, and the top eigenvector of R = GGᵀ where it is inside."""
    x, y = stack[:, 0], stack[:, 1]
    xx, xy, yy = (torch.linalg.vecdot(*pair) for pair in ((x, x), (x, y), (y, y)))
    angle = 0.5 * torch.atan2(2 * xy, xx - yy)
    top = torch.stack([angle.cos(), angle.sin()], dim=1)  # (P, 2)
    sides = torch.bmm(faces.normals, top[:, :, None]).squeeze(2)  # (P, F)
    inside, opposite = (sides >= 0).all(1), (sides <= 0).all(1)
    candidates = torch.cat(
        [faces.rays, torch.where(opposite & ~inside, -1.0, 1.0)[:, None, None] * top[:, None]], dim=1
    )
    value = torch.linalg.vector_norm(torch.bmm(candidates, stack), dim=2)
    value[:, -1] *= inside | opposite
    best = int(value.argmax())
    gate = best // value.shape[1]
    return gate, candidates[gate, best % value.shape[1]]


def _searched(gauge: ConeGauge, stack: Stack) -> tuple[int, Tensor]:
    """Gates with the largest spectral norms first, until no other can be the largest."""
    rough = spectral_norms(stack)
    cheap = gauge.region.exact(stack.shape[2])
    best, gate, u = -1.0, 0, stack.new_zeros(stack.shape[1])
    for gates in torch.argsort(rough, descending=True).split(_CHEAP_CHUNK if cheap else _CHUNK):
        if float(rough[gates[0]]) <= best:
            break
        lefts, rights = gauge.restrict(gates).atom(stack[gates])
        value = torch.einsum("kp,kpq,kq->k", lefts, stack[gates], rights)
        top = int(value.argmax())
        if float(value[top]) > best:
            best, gate, u = float(value[top]), int(gates[top]), lefts[top]
    return gate, u


def _moved(state: ClassicState, excess: float) -> ClassicState:
    """t moved to where the line through the last excesses, log(polar/β), is zero, well within the bracket."""
    here = (state.total, excess)
    low, high = (here, state.high) if excess > 0 else (state.low, here)
    slope = (high[1] - low[1]) / (high[0] - low[0]) if high[1] > -math.inf else _slope(state.low, here)
    guess = low[0] - low[1] / slope if slope < 0 else math.inf
    last = high[0] if high[1] > -math.inf else min(high[0], _FARTHEST * max(low[0], _LIMIT))
    margin = _MARGIN * (last - low[0])
    if state.halves:  # twice as far while no upper end was tried: L(0)/β is far beyond any t of use
        middle = (low[0] + high[0]) / 2
        total = middle if high[1] > -math.inf else min(middle, 2 * max(low[0], _LIMIT))
    else:
        total = min(max(guess, low[0] + margin), last - margin)
    ratio = total / state.total
    atoms = replace(state.atoms, right=state.atoms.right * ratio)
    # a warm start: as far along as its inner gap says, so that the next steps do not undo it
    steps = max(state.steps // 2, 1)
    return ClassicState(atoms, state.prediction * ratio, total, low, high, False, state.halves, steps)


def _slope(first: tuple[float, float], second: tuple[float, float]) -> float:
    return (second[1] - first[1]) / (second[0] - first[0]) if second[0] > first[0] else 0.0


def _one_of_each(old: Factors, atom: Factors, size: float) -> Factors:
    """Both; the new neuron joins an old one with its direction u and gate, which only lowers the penalty."""
    same = torch.nonzero((old.left @ atom.left[0] >= 1 - _SAME) & (old.gate == atom.gate)).flatten()
    if same.numel():
        right = old.right.clone()
        right[same[0]] += size * atom.right[0]
        return replace(old, right=right)
    kept = old.select(torch.linalg.vector_norm(old.right, dim=1) > _DUST * size)
    return Factors.join(kept, replace(atom, right=size * atom.right))
