"""The best second layers for given first layers: convex, and solved by a path that cannot stall.

    min_V  L(Σ_j A(a_j v_jᵀ)) + β Σ_j ‖v_j‖,    a_j unit vectors

A group lasso.  The norm is smoothed as a barrier of {‖v‖ ≤ s} would,  s = δ + √(δ² + ‖v‖²)  in place of ‖v‖ in its
gradient βv/‖v‖, and δ falls to nothing.  Each step is Newton on v and z together, sz = βv, ‖z‖ ≤ β (Chan, Golub and
Mulet 1999), which stays good as δ falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.losses import Loss

_STEPS = 200
_SMALLEST = 1e-11  # δ at the end, of the mean ‖v_j‖
_SHRINK = 0.1  # of δ, each time Newton has caught up with it
_CAUGHT_UP = 1e-3  # of β: the gradient's largest block
_BACKTRACKS = 25


@dataclass(frozen=True)
class SecondLayers:
    """v (N, q), the prediction Σ_j A(a_j v_jᵀ) and the objective."""

    v: Tensor
    prediction: Tensor
    value: float


def distinct(columns: Tensor, same: float = 1e-13) -> Tensor:
    """The cheapest of each set of atoms whose columns (N, …) are one up to a factor, and the first of those as cheap.

    Neighbouring cones share rays; and behind gates that open few rows many u of different reach do the same.
    """
    flat = columns.flatten(1)
    length = torch.linalg.vector_norm(flat, dim=1)
    unit = flat / length.clamp_min(1e-300)[:, None]
    close = unit @ unit.T >= 1 - same
    longer = length > length[:, None] * (1 + same)  # [i, j]: j reaches further than i
    dropped = close & (longer | (~longer.T).tril(-1))
    return torch.nonzero(~dropped.any(1) & (length > 0)).flatten()


def best_second_layers(loss: Loss, beta: float, columns: Tensor, start: Tensor | None = None) -> SecondLayers:
    """For columns (N, q, n, …, c) of distinct atoms; ``start`` (N, q) is a guess."""
    N, q = columns.shape[:2]
    C = columns.reshape(N * q, -1)
    shape = columns.shape[2:]
    zero = torch.zeros(shape, dtype=C.dtype)
    typical = max(float(loss.value(zero)) / (beta * N), 1e-300)  # β Σ‖v_j‖ ≤ L(0) at the solution
    v = torch.zeros(N, q, dtype=C.dtype) if start is None else start.clone()
    delta = typical if start is None else 0.01 * typical
    z = beta * v / _lengths(v, delta)[0]
    unweighted = loss.quadratic and not loss.free and bool((loss.sample_weight == 1).all()) and not deadline.over()
    hessian = C @ C.T if unweighted else None

    def at(v: Tensor, delta: float) -> tuple[Tensor, float]:
        prediction = (v.flatten() @ C).view(shape)
        s = _lengths(v, delta)[0]
        smooth = s - delta * torch.log(2 * delta * s)  # the barrier's value, over β
        return prediction, float(loss.value(prediction)) + beta * float(smooth.sum())

    prediction, value = at(v, delta)
    for _ in range(_STEPS):
        if deadline.over():
            break
        s, rho = _lengths(v, delta)
        pull = (C @ loss.gradient(prediction).flatten()).view(N, q)
        slope = pull + beta * v / s
        steepest = float(torch.linalg.vector_norm(slope, dim=1).max())
        if steepest <= _CAUGHT_UP * beta * min(1.0, delta / typical * 1e3):
            if delta <= _SMALLEST * typical:
                break
            delta = max(_SHRINK * delta, _SMALLEST * typical)
            prediction, value = at(v, delta)
            continue
        if hessian is None or not loss.quadratic:
            bent = loss.hessian_product(prediction, columns.reshape(N * q, *shape)).reshape(N * q, -1)
            H = C @ bent.T
        else:
            H = hessian.clone()
        turn = z[:, :, None] * v[:, None, :] / rho[:, :, None]
        own = (beta * torch.eye(q, dtype=C.dtype) - 0.5 * (turn + turn.mT)) / s[:, :, None]
        blocks = H.view(N, q, N, q)
        j = torch.arange(N)
        blocks[j, :, j, :] += own
        H.diagonal().add_(1e-14 * H.diagonal().abs().max())
        factor, failed = torch.linalg.cholesky_ex(H)
        if int(failed) != 0:
            break
        step = -torch.cholesky_solve(slope.reshape(-1, 1), factor).view(N, q)
        along = float((step * slope).sum())
        length = 1.0
        for _ in range(_BACKTRACKS):
            there, now = at(v + length * step, delta)
            if now <= value + 1e-4 * length * along + 1e-15 * abs(value):
                break
            length /= 2
        else:
            if delta <= _SMALLEST * typical:
                break
            delta *= _SHRINK
            prediction, value = at(v, delta)
            continue
        dz = (beta * (v + step) - s * z - z * (v * step).sum(1, keepdim=True) / rho) / s
        z = _within(z + dz, beta)
        v, prediction, value = v + length * step, there, now
    total = float(loss.value(prediction)) + beta * float(torch.linalg.vector_norm(v, dim=1).sum())
    return SecondLayers(v, prediction, total)


def _lengths(v: Tensor, delta: float) -> tuple[Tensor, Tensor]:
    """(δ + √(δ² + ‖v_j‖²), √(δ² + ‖v_j‖²)), each (N, 1)."""
    rho = torch.hypot(torch.linalg.vector_norm(v, dim=1, keepdim=True), torch.tensor(delta, dtype=v.dtype))
    return rho + delta, rho


def _within(z: Tensor, radius: float) -> Tensor:
    """Each row strictly within the ball."""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return torch.where(length > radius, z * (radius * (1 - 1e-12) / length.clamp_min(1e-300)), z)
