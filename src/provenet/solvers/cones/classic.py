"""CP Algorithm 1 as the paper has it, with the search over t of CP eq. 14 around it.

    p(t) = min L(A(Z)) + βt   over   Σ_k ‖Z_k‖_{*,K} ≤ t

From Z = 0, step k adds the neuron of the most violated arrangement:  Z ← (1 − α)Z + αt·u gᵀ,  α = 2/(2 + k).

The search is bisection.  Each step gives a line that p is never below, −L*(Θ) + (β − max_k γ_k°(A_k*Θ))·t, and so
does a loss of zero, βt.  A t at which a line is above the best objective seen is not the best one: what is left is a
bracket of t*, and a t near one of its ends moves to its middle.  Nothing else may close the bracket: polars that only
seem to be below β would shut out the best t for good.  The largest polar is exact for one output, and in up to three
dimensions; elsewhere it is what a search of the cones finds, which may be less.

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

_NEAR = 0.25  # of the bracket: a t nearer to one of its ends moves
_FARTHEST = 2.0  # times t: upper ends beyond it count as that, for L(0)/β is far beyond any t of use
_THIN = 1e-12  # of its upper end: a bracket no wider than that is a point
_DUST = 1e-10  # of t: neurons that have faded below it go
_SAME = 1e-14  # 1 − cos of first layers that are one neuron's
_CHUNK, _CHEAP_CHUNK = 16, 512  # gates asked at a time; where their answer has a formula
_LIMIT = 1e-300


@dataclass(frozen=True)
class ClassicState:
    """``atoms``: unit u, with g of the neuron's size.  ``total`` is the t at work, ``steps`` those taken with it,
    ``fixed``: it is the caller's.  low ≤ t* ≤ high; ``best``: the least objective seen."""

    atoms: Factors
    prediction: Tensor
    total: float
    fixed: bool
    high: float
    low: float = 0.0
    best: float = math.inf
    steps: int = 0


@dataclass(frozen=True)
class ClassicFrankWolfe(Method[ClassicState]):
    """total: the bound t of Σ‖u_j‖‖v_j‖ in CP eq. 14, in the user's units; None: it is searched for, by halves of its
    bracket.  check_every: steps between two looks at the gap; with 1 the history has objective and bound, and so the
    distance from the optimum, of every step."""

    total: float | None = None
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
        return _first(program, program.gauge, place(program, start or program.nobody), self.total)

    def step(self, program: Program[ConeGauge], state: ClassicState) -> ClassicState:
        return _next(program, program.gauge, state)

    def point(self, program: Program[ConeGauge], state: ClassicState) -> Point:
        """The neurons, both layers of one length, and Σ ‖u_j‖‖v_j‖."""
        return Point(state.prediction, float(state.atoms.sizes().sum()), state.atoms.balanced)


def _first(program: Program, gauge: ConeGauge, at: Place, total: float | None) -> ClassicState:
    """β t* ≤ L(0): what zero weights cost bounds the best t."""
    zero = torch.zeros_like(at.prediction)
    high = float(program.loss.value(zero)) / program.beta
    own = float(at.factors.penalty())
    first = total if total is not None else min(own, high) if own > 0 else _first_total(program, gauge, high)
    return ClassicState(at.factors.with_unit_left(), at.prediction, first, total is not None, high)


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
    if not state.fixed:
        value = float(program.loss.value(state.prediction))
        height = value - float((theta * state.prediction).sum())  # −L*(Θ), as Θ is a gradient
        best = min(state.best, value + program.beta * float(state.atoms.sizes().sum()))
        state = replace(state, best=best)
        for line in ((height, program.beta - largest), (0.0, program.beta)):
            state = _narrowed(state, *line)
        state = _moved(state)
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


def _narrowed(state: ClassicState, height: float, slope: float) -> ClassicState:
    """The bracket without those t at which the line is above the best objective."""
    if slope == 0:
        return state
    end = (state.best - height) / slope
    return replace(state, high=min(state.high, end)) if slope > 0 else replace(state, low=max(state.low, end))


def _moved(state: ClassicState) -> ClassicState:
    """t to the middle of the bracket, if it is near an end; Z as it was, or shrunk into the smaller ball."""
    width = state.high - state.low
    far = min(state.high, _FARTHEST * state.total)
    near = min(state.total - state.low, far - state.total) < _NEAR * (far - state.low)
    if not near or width <= _THIN * state.high:
        return state
    total = min(state.low + width / 2, _FARTHEST * state.total)
    ratio = min(total / state.total, 1.0)
    atoms = replace(state.atoms, right=state.atoms.right * ratio)
    # a warm start: as far along as half of its steps say, so that the next ones do not undo it
    return replace(state, atoms=atoms, prediction=state.prediction * ratio, total=total, steps=max(state.steps // 2, 1))


def _one_of_each(old: Factors, atom: Factors, size: float) -> Factors:
    """Both; the new neuron joins an old one with its direction u and gate, which only lowers the penalty."""
    same = torch.nonzero((old.left @ atom.left[0] >= 1 - _SAME) & (old.gate == atom.gate)).flatten()
    if same.numel():
        right = old.right.clone()
        right[same[0]] += size * atom.right[0]
        return replace(old, right=right)
    kept = old.select(torch.linalg.vector_norm(old.right, dim=1) > _DUST * size)
    return Factors.join(kept, replace(atom, right=size * atom.right))
