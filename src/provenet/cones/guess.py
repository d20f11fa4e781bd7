"""Which rows of each cone are tight at a projection: a short interior point in single precision, as a guess.

    min ½‖g + Kᵀλ‖²  over  λ ≥ 0,        λ ∘ s = μ,  s = K(g + Kᵀλ)

An active set adds and drops rows one by one, many times more of them than stay; from a guess it changes only a few.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.space import Space

_LEAST_SIDE = 12  # dimensions from which a guess pays
_MOST_SQUARES = 2e8  # numbers in the table of Φ_rΦ_rᵀ
_FEW = 16  # problems at a time, at least
_SPEED = 4  # of products in single precision, beside those of factorisations
_STEPS = 16
_CLOSE = 1e-3  # of ‖g‖²: the complementarity at which the tight rows show
_MULTIPLIERS, _SLACK = 20.0, 0.1  # of ‖g‖: the sum of the first multipliers, and the least of the first slacks
_BOUNDARY = 0.99  # share of the way to the boundary
_BELOW = 0.98  # of what is short enough

Guess = tuple[Tensor, Tensor]  # rows (B, m), their multipliers (B, m) ≥ 0


def tight_rows(rows: Tensor, signs: Tensor, g: Tensor, enough: float) -> Guess | None:
    """For points g (B, p), or None where a guess is not worth its while, or there is no time for one.

    ``enough``: as `project` has it."""
    alive = torch.nonzero(rows.abs().amax(1) > 0).flatten() if rows.numel() else torch.arange(0, device=rows.device)
    N, p = len(alive), rows.shape[1]
    if p < _LEAST_SIDE or 2 * p >= N or N * p * (p + 1) / 2 > _MOST_SQUARES or bool((signs == 0).any()):
        return None
    at_once = max(_FEW, batches.count(N, batches.CORE, itemsize=4))
    if not deadline.affords(N * p * (p + 1) / 2 * (1 + min(len(g), at_once) / _SPEED)):
        return None
    if len(rows) > N:
        rows, signs = rows[alive], signs[:, alive]
    table = rows.to(torch.float32)
    i, j = torch.triu_indices(p, p, device=rows.device)
    squares = table[:, i] * table[:, j]
    size = torch.linalg.vector_norm(g, dim=1, keepdim=True).clamp_min(torch.finfo(g.dtype).tiny)
    found = []
    for some in torch.arange(len(g), device=g.device).split(at_once):
        if deadline.over():
            return None
        short = (_BELOW * enough / size[some, 0]).to(torch.float32)
        found.append(_guess(table, squares, signs[some].to(torch.float32), (g[some] / size[some]).float(), short))
    row, multiplier = (torch.cat(parts) for parts in zip(*found, strict=True))
    return alive[row], multiplier.to(g.dtype) * size


def _guess(rows: Tensor, squares: Tensor, signs: Tensor, g: Tensor, short: Tensor) -> Guess:
    """Predictor and corrector steps (Mehrotra 1992) for g (B, p) of unit length."""
    N, p = rows.shape
    i, j = torch.triu_indices(p, p, device=rows.device)
    eye = Space.of(g).eye(p)
    place = torch.arange(len(g), device=g.device)  # of the problems still at work
    lam = torch.full_like(signs, _MULTIPLIERS / N)
    slack = ((g + (lam * signs) @ rows) @ rows.T).mul_(signs)
    s = slack.clamp_min(_SLACK)
    last_lam, last_s = lam.clone(), s.clone()
    for _ in range(_STEPS):
        flat = (lam / s) @ squares
        system = flat.new_empty(len(flat), p, p)
        system[:, i, j] = flat
        system[:, j, i] = flat
        factor, failed = torch.linalg.cholesky_ex(system.add_(eye))
        residual, product = slack - s, lam * s
        mu = product.mean(1, keepdim=True)
        dlam, ds = _direction(rows, signs, factor, lam, s, residual, -product)
        step = _longest(lam, s, dlam, ds, 1.0)
        ahead = ((lam + step * dlam) * (s + step * ds)).mean(1, keepdim=True)
        aim = mu * (ahead / mu).clamp(1e-6, 1.0) ** 3
        dlam, ds = _direction(rows, signs, factor, lam, s, residual, aim - product - dlam * ds)
        step = _longest(lam, s, dlam, ds, _BOUNDARY)
        lam, s = lam + step * dlam, s + step * ds
        u = g + (lam * signs) @ rows
        length = torch.linalg.vector_norm(u, dim=1)
        sound = (failed == 0) & torch.isfinite(length)
        last_lam[place[sound]], last_s[place[sound]] = lam[sound], s[sound]
        slack = (u @ rows.T).mul_(signs)
        off = (slack - s).abs().amax(1)
        found = ((lam * s).sum(1) <= _CLOSE) & (off <= _CLOSE) | (length <= short) | (length <= _CLOSE)
        more = sound & ~found
        if not bool(more.all()):
            place, g, signs, short, lam, s, slack = (part[more] for part in (place, g, signs, short, lam, s, slack))
        if len(place) == 0 or deadline.over():
            break
    ratio, row = (last_lam / last_s).topk(p, dim=1)
    return row, torch.gather(last_lam, 1, row) * (ratio > 1)


def _direction(
    rows: Tensor, signs: Tensor, factor: Tensor, lam: Tensor, s: Tensor, residual: Tensor, change: Tensor
) -> Guess:
    """(dλ, ds) for the wanted change of λ∘s, and of K(g + Kᵀλ) − s to zero."""
    push = ((change - lam * residual) / s).mul_(signs) @ rows
    du = torch.cholesky_solve(push[:, :, None], factor).squeeze(2)
    ds = (du @ rows.T).mul_(signs).add_(residual)
    return (change - lam * ds) / s, ds


def _longest(lam: Tensor, s: Tensor, dlam: Tensor, ds: Tensor, share: float) -> Tensor:
    """The share of the way to where a multiplier or a slack is zero, at most one, (B, 1)."""
    fall = torch.minimum((dlam / lam).amin(1), (ds / s).amin(1))
    return (share / (-fall).clamp_min(share))[:, None]
