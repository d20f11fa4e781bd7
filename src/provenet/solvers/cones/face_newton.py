"""Neurons improved together within their cones: Newton on the faces on which they lie.

    min_{U,V}  L(Σ_j A(u_j v_jᵀ)) + β/2 Σ_j (‖u_j‖² + ‖v_j‖²),   K_{k(j)} u_j ≥ 0          (BM eq. 19, 24)

Stationary points have u_j = Proj_K(−G_k v_j)/β, G = A*∇L(Ŷ): the rows with multipliers in that projection are the face
on which u_j belongs, known before u_j is there.  On the faces the problem is smooth.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import Region, project
from provenet.problem import Program
from provenet.solvers.cones.faces import feasible, walls_of
from provenet.solvers.neurons.hessian import DenseModel
from provenet.solvers.neurons.place import Place, gradient, place
from provenet.variable import Factors

_DAMPINGS = (0.0, 1e-3, 1e-1, 1.0, 10.0, 100.0)  # of β
_LENGTHS = (1.0, 0.5, 0.1)
_FLAT = 1e-15  # a decrease below this part of the objective drowns in rounding
_UNKNOWNS = 1_500
_ENTRIES = 6_000_000  # of the Jacobian
_GRADIENT_TRIES = 20
_DUST = 1e-9  # of a vector, when projected


def improved(program: Program, region: Region, at: Place, steps: int) -> Place:
    """``at`` after up to ``steps`` descending steps; neurons stay in their cones."""
    rate = 1.0
    for _ in range(steps):
        if at.factors.n_neurons == 0 or deadline.over():
            break
        there = _newton(program, region, at) if _small(at) else None
        if there is None:
            there, rate = _projected_gradient(program, region, at, rate)
        if there is None or at.value - there.value <= _FLAT * abs(at.value):
            break
        at = there
    return at


def _small(at: Place) -> bool:
    unknowns = at.factors.left.numel() + at.factors.right.numel()
    return unknowns <= _UNKNOWNS and unknowns * at.prediction.numel() <= _ENTRIES


def _newton(program: Program, region: Region, at: Place) -> Place | None:
    """The best of a few damped Newton steps, ``at`` itself where it is stationary; None where none descends."""
    factors, beta = at.factors, program.beta
    slope = gradient(program, at)
    pull = beta * factors.left - slope[:, : factors.left.shape[1]]
    along, onto = walls_of(region, project(region.rows, region.signs[factors.gate], pull)).face(factors.left)
    to_face = torch.cat([onto, torch.zeros_like(factors.right)], dim=1)
    model = DenseModel(program, at)
    there = slope + model.product(to_face, coupled=True)
    best = at
    for damping in _DAMPINGS:
        if deadline.over():
            break
        on_face = model.solve(there, damping * beta, coupled=True, face=along)
        if on_face is None:
            continue
        step = to_face + on_face
        change = float((slope * step + 0.5 * step * model.product(step, coupled=True)).sum())
        if abs(change) <= _FLAT * abs(at.value):
            return at  # the model has no change in store that could be told from rounding
        for length in _LENGTHS:
            trial = _moved(program, region, factors, length * step)
            if trial.value < best.value:
                best = trial
                break
        if best.value < at.value:
            return best
    return None


def _moved(program: Program, region: Region, factors: Factors, step: Tensor) -> Place:
    """The neurons moved by ``step`` (N, p + q), and back into their cones."""
    p = factors.left.shape[1]
    left = _inside(region, factors.gate, factors.left + step[:, :p])
    return place(program, Factors(left, factors.right + step[:, p:], factors.gate))


def _inside(region: Region, gate: Tensor, u: Tensor) -> Tensor:
    """u (N, p) projected on their cones, exactly zero where only rounding, which points anywhere, would be left."""
    signs = region.signs[gate]
    point = project(region.rows, signs, u).point
    again = feasible(region, point, gate).point  # the first is as accurate as u is long; it may be much shorter
    length, before = (torch.linalg.vector_norm(one, dim=1, keepdim=True) for one in (again, u))
    return torch.where(length > _DUST * before, again, 0.0)


def _projected_gradient(program: Program, region: Region, at: Place, rate: float) -> tuple[Place | None, float]:
    slope = gradient(program, at)
    for _ in range(_GRADIENT_TRIES):
        if deadline.over():
            break
        trial = _moved(program, region, at.factors, -rate * slope)
        if trial.value < at.value:
            return trial, 2 * rate
        rate /= 2
    return None, rate
