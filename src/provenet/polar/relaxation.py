"""An upper bound of max ‖Σ_r σ(Φ_r u) M_r‖ over all ‖u‖ ≤ 1, from a relaxation with one multiplier a row.

h = σ(z), z = Φu, has h_r(z_r − h_r) = 0.  So for any μ with Mᵀdiag(μ)⁻¹M ≺ I

    ‖Mᵀh‖² = hᵀMMᵀh + Σ_r μ_r h_r(z_r − h_r)
           ≤ max_h zᵀdiag(μ)h − hᵀ(diag(μ) − MMᵀ)h = ¼ zᵀdiag(μ)(diag(μ) − MMᵀ)⁻¹diag(μ)z

and with Woodbury's identity, over ‖u‖ ≤ 1, the square of the bound is the convex function

    t(μ) = ¼ λ_max(Φᵀdiag(μ)Φ + ΦᵀM(I − Mᵀdiag(μ)⁻¹M)⁻¹MᵀΦ)

At its best scale it is no more than ‖D⁻¹M‖²‖DΦ‖² for every diagonal D, μ = 2‖D⁻¹M‖²D².
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from provenet import deadline

_STEPS = 200
_FEWEST = 12
_WORK = 2e10  # multiply-adds of the whole search
_ROUNDING = 1e-9  # relative, of a bound whose inverse is no worse conditioned than 1/_ROOM
_ROOM = 1e-5


def diagonal_bound(rows: Tensor, weights: Tensor) -> float:
    """For Φ (N, p) and M (N, q) without rows of zeros.

    With one output only rows that pull the same way help each other: Σ m_r σ(z_r) ≤ Σ (m_r)₊ σ(z_r), on either side.
    """
    whole = _searched(rows, weights)
    if weights.shape[1] > 1:
        return whole
    sides = [_searched(rows[m], weights[m]) for m in (weights[:, 0] > 0, weights[:, 0] < 0)]
    return min(whole, max(sides))


def _searched(rows: Tensor, weights: Tensor) -> float:
    """The best of a descent in log μ.  Every value is a bound, so that its accuracy does not matter."""
    if len(rows) == 0:
        return 0.0
    N, p = rows.shape
    q = weights.shape[1]
    cost = N * (p * p + q * q + p * q) + 10 * (p**3 + q**3)
    steps = int(min(max(_WORK / (3 * cost), _FEWEST), _STEPS))
    pull = rows.T @ weights
    log_mu = (torch.linalg.vector_norm(weights, dim=1) / torch.linalg.vector_norm(rows, dim=1)).log()
    log_mu = log_mu.clone().requires_grad_()
    log_scale = torch.tensor(math.log(2.0), dtype=rows.dtype, requires_grad=True)  # κ = 1 + its exponential, at least 1
    optimiser = torch.optim.Adam([log_mu, log_scale], lr=0.1)
    best = math.inf
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.1 * (1 - step / steps) + 0.005
        optimiser.zero_grad()
        square = _square(rows, weights, pull, log_mu, log_scale)
        value = float(square.detach())
        if not math.isfinite(value):
            break
        best = min(best, value)
        if deadline.over():
            break
        square.log().backward()
        optimiser.step()
    return best**0.5 * (1 + _ROUNDING)


def _square(rows: Tensor, weights: Tensor, pull: Tensor, log_mu: Tensor, log_scale: Tensor) -> Tensor:
    """t(μ) at μ = κ·λ_max(MᵀE⁻¹M)·E, E = diag(exp(log μ)): feasible by construction for every κ > 1."""
    shape = log_mu.exp()
    inner = (weights / shape[:, None]).T @ weights
    least = torch.linalg.eigvalsh(inner)[-1] * (1 + 1e-12)
    kappa = 1 + _ROOM + log_scale.exp()
    mu = kappa * least * shape
    room = torch.eye(len(inner), dtype=rows.dtype) - inner / (kappa * least)
    total = (rows * mu[:, None]).T @ rows + pull @ torch.linalg.solve(room, pull.T)
    return 0.25 * torch.linalg.eigvalsh(0.5 * (total + total.T))[-1]
