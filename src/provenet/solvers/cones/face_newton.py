"""Neurons improved together within their cones: Newton on the faces on which they lie.

    min_{U,V}  L(Σ_j A(u_j v_jᵀ)) + β/2 Σ_j (‖u_j‖² + ‖v_j‖²),   K_{k(j)} u_j ≥ 0          (BM eq. 19, 24)

Stationary points have u_j = Proj_K(−G_k v_j)/β, G = A*∇L(Ŷ): the rows with multipliers in that projection are the face
on which u_j belongs, known before u_j is there.  On the faces the problem is smooth.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import project
from provenet.cones.projection import take
from provenet.problem import Program
from provenet.solvers.cones.faces import Region, feasible
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
    """The best of a few damped Newton steps; None where none descends."""
    factors, beta = at.factors, program.beta
    N, p = factors.left.shape
    q = factors.right.shape[1]
    slope = gradient(program, at)
    on_face = _faces(region, factors.gate, beta * factors.left - slope[:, :p])
    gates, which = torch.unique(factors.gate, return_inverse=True)
    coupling = program.operator.restrict(gates).adjoint(program.loss.gradient(at.prediction))[which]  # (N, p, q)
    columns = program.operator.jacobian(factors)
    bent = program.loss.hessian_product(at.prediction, columns.flatten(0, 1)).flatten(1)
    hessian = columns.flatten(0, 1).flatten(1) @ bent.T
    hessian.diagonal().add_(beta)
    blocks = hessian.view(N, p + q, N, p + q)
    j = torch.arange(N)
    blocks[j, :p, j, p:] += coupling
    blocks[j, p:, j, :p] += coupling.mT
    to_face = torch.zeros_like(slope)
    to_face[:, :p] = torch.bmm(on_face, factors.left[:, :, None]).squeeze(2) - factors.left
    there = slope + (hessian @ to_face.flatten()).view_as(slope)
    there[:, :p] = torch.bmm(on_face, there[:, :p, None]).squeeze(2)
    blocks[:, :p] = torch.einsum("jab,jbkc->jakc", on_face, blocks[:, :p])
    blocks[:, :, :, :p] = torch.einsum("jakb,kbc->jakc", blocks[:, :, :, :p], on_face)
    off_face = torch.eye(p, dtype=slope.dtype) - on_face
    blocks[j, :p, j, :p] += beta * off_face
    rounding = 1e-14 * float(hessian.diagonal().max())
    best = at
    for damping in _DAMPINGS:
        if deadline.over():
            break
        damped = hessian.clone()
        damped.diagonal().add_(damping * beta + rounding)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if int(failed) != 0:
            continue
        step = to_face - torch.cholesky_solve(there.reshape(-1, 1), factor).view_as(slope)
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


def _faces(region: Region, gate: Tensor, pull: Tensor) -> Tensor:
    """The orthogonal projections (N, p, p) on the spaces of the faces that ``pull`` (N, p) projects on."""
    held = project(region.rows, region.signs[gate], pull)
    tight = take(region.rows, held.rows) * (held.multipliers > 0)[:, :, None]
    _, sigma, Vh = torch.linalg.svd(tight, full_matrices=False)
    normals = Vh * (sigma > 1e-10)[:, :, None]
    return torch.eye(pull.shape[1], dtype=pull.dtype) - torch.bmm(normals.mT, normals)


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
