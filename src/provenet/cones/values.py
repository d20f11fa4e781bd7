"""The cone-nuclear norm of a matrix, from both sides.

    ‖Z‖_{*,K} = min Σ_j ‖u_j‖‖v_j‖  over  Z = Σ_j u_j v_jᵀ,  Ku_j ≥ 0
              = max ⟨G, Z⟩          over  ‖Gᵀu‖ ≤ 1 for all unit u with Ku ≥ 0

Any factorisation bounds it from above, any G from below.  For one output it is min ‖a‖ + ‖b‖ over a − b = z, a and b in
the cone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.optimize import nnls
from torch import Tensor

from provenet.cones.base import Table
from provenet.cones.pca import cone_pca
from provenet.space import Space
from provenet.vectors import unit

_ACCURACY = 1e-10  # μ at the end
_TIGHT = 1e-6  # of ‖a‖: rows of less slack are tight there
_SHRINK = 0.1  # of μ, each time Newton has mu up with it
_CAUGHT_UP = 0.25  # Newton's decrement, squared
_CENTRED = 1e-6  # the same, at the end
_BARRIER_STEPS = 150
_TOLERANCE = 1e-5
_ROUNDS = 40
_STEPS = 25
_HALVINGS = 20


class Factorisation(NamedTuple):
    """Σ‖v_j‖ and unit vectors u (m, p) of the cone with Z = Σ_j u_j v_jᵀ, v (m, q), and a lower bound of the norm."""

    lower: float
    upper: float
    u: Tensor
    v: Tensor


def split(cones: Table, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(lower, upper, a, b): bounds (B,) of min ‖a‖ + ‖b‖, and the a and b (B, p), for z = a − b (B, p).

    Newton on a barrier, for all gates at once: log(s² − ‖a‖²) in place of the norms, log Ka for the rows.  At the
    end a/‖a‖ + b/‖b‖ is a non-negative sum of rows tight at a or at b; a/‖a‖ without the former is a dual point.
    """
    size = torch.linalg.vector_norm(z, dim=1)
    if len(z) == 0:
        return size, size, z, z
    unit = z / size.clamp_min(1e-300)[:, None]
    alive = torch.linalg.vector_norm(cones.rows, dim=1) > 0
    rows, signs = cones.rows[alive], cones.signs[:, alive]
    least = ((unit @ rows.T) * signs).clamp_min(0)  # Ka must exceed it
    room = (cones.inside @ rows.T) * signs
    far = ((least + 0.1) / room.clamp_min(1e-300)).amax(1, keepdim=True) if len(rows) else size.new_ones(len(z), 1)
    a = far * cones.inside
    mu = torch.ones_like(size)
    left = torch.arange(len(z), device=z.device)
    for _ in range(_BARRIER_STEPS):
        step, decrement = _barrier_step(rows, signs[left], unit[left], a[left], mu[left])
        fine = torch.isfinite(step).all(1) & torch.isfinite(decrement)  # else the cone is too thin for more
        left, step, decrement = left[fine], step[fine], decrement[fine]
        a[left] = a[left] + step
        last = mu[left] <= _ACCURACY
        mu[left] = torch.where((decrement < _CAUGHT_UP) & ~last, _SHRINK * mu[left], mu[left])
        left = left[~(last & (decrement < _CENTRED))]
        if left.numel() == 0:
            break
    upper = torch.linalg.vector_norm(a, dim=1) + torch.linalg.vector_norm(a - unit, dim=1)
    G = torch.stack([_dual(rows * sign[:, None], x, x - y) for sign, x, y in zip(signs, a, unit, strict=True)])
    lower = (G * unit).sum(1) / cone_pca(cones, G[:, :, None]).upper.clamp_min(1e-300)
    rounding = 8 * (z.shape[1] + 4) * torch.finfo(z.dtype).eps
    return size * lower * (1 - rounding), size * upper * (1 + rounding), size[:, None] * a, size[:, None] * a - z


def _dual(K: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a/‖a‖ − K_aᵀλ_a (p,), for the λ ≥ 0 with a/‖a‖ + b/‖b‖ ≈ K_aᵀλ_a + K_bᵀλ_b on the rows tight at a and at b."""
    sizes = [torch.linalg.vector_norm(point).clamp_min(1e-300) for point in (a, b)]
    tight = [K[K @ point <= _TIGHT * max(sizes)] for point in (a, b)]
    small = [size <= _TIGHT * max(sizes) for size in sizes]
    if small[0]:  # nothing in a: any G with −G = b/‖b‖ does
        return -b / sizes[1]
    if small[1]:
        return a / sizes[0]
    generators = torch.cat(tight).T.numpy()
    weights = torch.from_numpy(nnls(generators, (a / sizes[0] + b / sizes[1]).numpy(), maxiter=10_000)[0])
    return a / sizes[0] - tight[0].T @ weights[: len(tight[0])]


def _barrier_step(rows: Tensor, signs: Tensor, z: Tensor, a: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
    """A Newton step (B, p) that stays inside, and Newton's decrement, squared (B,)."""
    p, column = a.shape[1], mu[:, None]
    eye = Space.of(a).eye(p)
    slope, hessian = torch.zeros_like(a), a.new_zeros(len(a), p, p)
    slacks = []
    for point in (a, a - z):
        rho = torch.hypot(torch.linalg.vector_norm(point, dim=1), mu)[:, None]
        s = rho + column
        slack = ((point @ rows.T) * signs).clamp_min(1e-300)
        slope = slope + point / s - (column / slack * signs) @ rows
        hessian = hessian + eye / s[:, :, None] - point[:, :, None] * point[:, None, :] / (s**2 * rho)[:, :, None]
        hessian = hessian + torch.einsum("bn,np,nq->bpq", column / slack**2, rows, rows)
        slacks.append(slack)
    scale = hessian.diagonal(dim1=1, dim2=2).sqrt()
    scaled = hessian / scale[:, :, None] / scale[:, None, :] + 1e-14 * eye
    step = -torch.linalg.solve(scaled, (slope / scale)[:, :, None]).squeeze(2) / scale
    decrement = -(slope * step).sum(1) / mu
    longest = torch.cat([-(step @ rows.T) * signs / slack for slack in slacks], dim=1)
    bold = 0.9 / (longest.amax(1) if len(rows) else torch.zeros_like(mu)).clamp_min(1e-300)
    sure = torch.where(decrement < _CAUGHT_UP, 1.0, 1 / (1 + decrement.clamp_min(0).sqrt()))
    length = torch.maximum(sure, bold.clamp_max(0.7))
    length = torch.minimum(length, bold.clamp_max(1.0))
    return length[:, None] * step, decrement


def factorised(cone: Table, Z: Tensor, rounds: int = _ROUNDS, tolerance: float = _TOLERANCE) -> Factorisation:
    """Of one block Z (p, q), for a `Table` of one gate: neurons added one by one where the dual point is violated.

    It starts from p + 1 vectors around the point inside, which span everything.
    """
    p, q = Z.shape
    size = float(torch.linalg.matrix_norm(Z))
    u = _around(cone)
    if size == 0:
        return Factorisation(0.0, 0.0, u, Z.new_zeros(len(u), q))
    unit = Z / size
    v = torch.linalg.pinv(u.T) @ unit
    lower, delta = 0.0, 1.0
    best = Factorisation(0.0, torch.inf, u, v)
    for last in [False] * (rounds - 1) + [True]:
        v, G = _least_norms(u, v, max(delta, 1e-3 * tolerance))
        v = v + torch.linalg.pinv(u.T) @ (unit - u.T @ v)
        upper = float(torch.linalg.vector_norm(v, dim=1).sum())
        found = cone_pca(cone, G[None], enough=torch.inf)
        if float(found.lower) <= 1 + tolerance or last:  # only then is a bound worth its while
            found = cone_pca(cone, G[None], tolerance=0.1 * tolerance)
            lower = max(lower, float((G * unit).sum()) / max(float(found.upper), 1e-300))
        if upper < best.upper:
            best = Factorisation(lower, upper, u, v)
        if best.upper - lower <= tolerance * best.upper:
            break
        delta = min(delta, 0.01 * (float(found.lower) - 1) if lower == 0 else 0.01 * (best.upper - lower))
        if float(found.lower) > 1 + 1e-3 * tolerance:
            u, v = torch.cat([u, found.u]), torch.cat([v, Z.new_zeros(1, q)])
    rounding = 1 + 8 * (p + len(best.v)) * torch.finfo(Z.dtype).eps
    return Factorisation(size * lower / rounding, size * best.upper * rounding, best.u, size * best.v)


def _around(cone: Table) -> Tensor:
    """Unit vectors (p + 1, p) of the cone that span the space."""
    inside = cone.inside[0]
    alive = torch.linalg.vector_norm(cone.rows, dim=1) > 0
    slack = cone.slack(cone.inside, cone.space.zeros(1, dtype=torch.long))[0, alive]
    radius = 0.9 * float(slack.min()) if slack.numel() else 0.5
    return unit(torch.cat([inside[None], inside + radius * cone.space.eye(len(inside))]))


def _least_norms(u: Tensor, v: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    """argmin Σ‖v_j‖, smoothed by δ, over second layers with the same Σ u_j v_jᵀ, and the multipliers G (p, q).

    The gradient v/‖v‖ becomes v/s with s = δ + √(δ² + ‖v‖²), a barrier's; its Hessian has the inverse sI + vvᵀ/δ.
    """
    p, q = u.shape[1], v.shape[1]
    G, space = u.new_zeros(p, q), Space.of(u)
    for _ in range(_STEPS):
        s = delta + torch.hypot(torch.linalg.vector_norm(v, dim=1), v.new_tensor(delta))
        inverse = s[:, None, None] * space.eye(q) + v[:, :, None] * v[:, None, :] / delta
        system = torch.einsum("jp,jr,jab->parb", u, u, inverse).reshape(p * q, p * q)
        system = system + 1e-14 * system.diagonal().max() * space.eye(p * q)
        pull = torch.einsum("jp,jab,jb->pa", u, inverse, v / s[:, None])
        G = torch.linalg.solve(system, pull.reshape(-1)).view(p, q)
        step = torch.einsum("jab,jb->ja", inverse, u @ G - v / s[:, None])
        length = _shorter(v, step, delta)
        v = v + length * step
        if length == 0 or float(torch.linalg.vector_norm(step)) <= 1e-3 * delta:
            break
    return v, G


def _shorter(v: Tensor, step: Tensor, delta: float) -> float:
    """A length at which the smoothed Σ‖v_j‖ does not rise; zero where none is found."""

    def smooth(v: Tensor) -> float:
        s = delta + torch.hypot(torch.linalg.vector_norm(v, dim=1), v.new_tensor(delta))
        return float((s - delta * torch.log(2 * delta * s)).sum())

    now = smooth(v)
    return next((0.5**k for k in range(_HALVINGS) if smooth(v + 0.5**k * step) <= now), 0.0)
