"""An upper bound of cone-constrained PCA: the dual of its copositive relaxation (CP eq. 3, §4.2).

For u with Ku ≥ 0 and any S ≥ 0, entry by entry, uᵀKᵀSKu ≥ 0.  So

    max ‖Gᵀu‖²  ≤  λ_max(GGᵀ + KᵀSK)      over unit u in the cone,

whatever S ≥ 0 is and however it was found; any few rows of K do, and so do non-negative sums of them.  The best S on
a few rows is a small semidefinite program, solved here by a barrier method for many gates at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.cones import Cones
from provenet.cones.projection import project

_ROWS = 5  # and p more, of each gate, take part at first and are kept from round to round
_MOST_ROWS = 12
_NEW_ROWS = 4  # that join them in each round
_ROUNDS = 5
_PAIRS = 2**24  # of rows (gates × rows × rows) looked at at a time
_STEPS = 80
_SHRINK = 0.1  # of the barrier, each time Newton has caught up with it
_CAUGHT_UP = 0.5  # Newton's decrement, squared
_ACCURACY = 1e-11


def relaxed(cones: Cones, G: Tensor, u: Tensor, target: Tensor) -> Tensor:
    """Upper bounds (B,) of max ‖G_kᵀu‖, for G (B, p, c), good points u (B, p) of the cones and bounds that suffice.

    The rows that matter are those tight at a good point, and u itself where it is a non-negative sum of rows: at a
    maximum, GGᵀu = λu − Σ_a μ_a k_a, and S = μ_a on the pairs (k_a, u) makes u an eigenvector of the sum.
    """
    R = torch.bmm(G, G.mT)
    size = torch.linalg.matrix_norm(R, 2).clamp_min(1e-300)
    unit, goal = R / size[:, None, None], target.square() / size
    eps = torch.finfo(G.dtype).eps
    depth = 8 * (sum(G.shape[1:]) + cones.rows.shape[0] + 4) * eps  # of a sum of products of these lengths
    best = torch.linalg.eigvalsh(unit)[:, -1] + depth
    rows, weight = _first_rows(cones, torch.bmm(unit, u[:, :, None]).squeeze(2), u)
    open_ = torch.arange(len(G))
    for _ in range(_ROUNDS):
        more = best[open_] > goal[open_]
        open_, rows, weight = open_[more], rows[more], weight[more]
        if open_.numel() == 0 or deadline.over():
            break
        value, S, U = _minimise(unit[open_], rows, goal[open_])
        share = torch.einsum("bij,bi,bj->bi", S, weight, weight)
        best[open_] = torch.minimum(best[open_], value + depth * (1 + share.sum(1)))
        kept = torch.topk(share, min(_ROWS + rows.shape[2], _MOST_ROWS, share.shape[1]), dim=1).indices
        rows = torch.gather(rows, 1, kept[:, :, None].expand(-1, -1, rows.shape[2]))
        weight = torch.gather(weight, 1, kept)
        rows = torch.cat([rows, _violated(cones.restrict(open_), U)], dim=1)
        weight = torch.nn.functional.pad(weight, (0, rows.shape[1] - weight.shape[1]), value=1.0)
    return (best.clamp_min(0) * size).sqrt() * (1 + 4 * eps)


def _first_rows(cones: Cones, pull: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """(B, m, p): a non-negative sum of rows next to u, the tight rows that hold u back, and those next to tight.

    Also their weights (B, m): the lengths of what each is a sum of, which its rounding is in proportion to.
    """
    # −u + Kᵀλ: so Kᵀλ is the point of the dual cone next to u
    dual = project(cones.rows, cones.signs, -u, hurried=True)
    sums = dual.point + u
    slack = (u @ cones.rows.T) * cones.signs
    held = project(cones.rows, cones.signs, pull, hurried=True)
    slack.scatter_add_(1, held.rows, -held.multipliers)  # rows that hold u back come first
    slack.masked_fill_(torch.linalg.vector_norm(cones.rows, dim=1) == 0, torch.inf)
    few = min(_ROWS + u.shape[1] - 1, _MOST_ROWS, cones.rows.shape[0])
    chosen = torch.topk(slack, few, dim=1, largest=False).indices
    rows = cones.rows[chosen] * torch.gather(cones.signs, 1, chosen)[:, :, None]
    weight = torch.ones(len(u), few + 1, dtype=u.dtype)
    weight[:, 0] += dual.multipliers.sum(1)
    return torch.cat([sums[:, None], rows], dim=1), weight


def _violated(cones: Cones, U: Tensor) -> Tensor:
    """(B, m, p): the rows of the most negative entries of KUKᵀ, which the relaxation's primal U (B, p, p) violates."""
    N = cones.rows.shape[0]
    few = min(_NEW_ROWS, N)
    if len(U) * N * N > _PAIRS and len(U) > 1:
        size = max(1, _PAIRS // N**2)
        return torch.cat([_violated(cones.restrict(gates), U[gates]) for gates in torch.arange(len(U)).split(size)])
    entries = torch.einsum("ip,bpq,jq->bij", cones.rows, U, cones.rows)
    entries = entries * cones.signs[:, :, None] * cones.signs[:, None, :]
    row = torch.topk(entries.amin(2), few, dim=1, largest=False).indices
    return cones.rows[row] * torch.gather(cones.signs, 1, row)[:, :, None]


def _minimise(R: Tensor, rows: Tensor, goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """min λ_max(R + Σ_{a≤b} S_ab sym(k_a k_bᵀ)) over S ≥ 0, for R (B, p, p) of norm one, rows (B, m, p).

    Newton on t/μ − logdet(tI − R − KᵀSK) − Σ log S_ab while μ falls.  Returns the value (B,), an upper bound at
    any S, the S (B, m, m) there, and the relaxation's own U (B, p, p), of trace one.
    """
    B, p = R.shape[:2]
    a, b = torch.triu_indices(rows.shape[1], rows.shape[1])
    S = R.new_full((B, a.numel()), 0.01)
    eye = torch.eye(p, dtype=R.dtype)

    def square(S: Tensor) -> Tensor:
        full = S.new_zeros(len(S), rows.shape[1], rows.shape[1])
        full[:, a, b] = 0.5 * S
        return full + full.mT

    def total(which: Tensor, S: Tensor) -> Tensor:
        K = rows[which]
        return R[which] + torch.bmm(K.mT, torch.bmm(square(S), K))

    everyone = torch.arange(B)
    values = torch.linalg.eigvalsh(total(everyone, S))[:, -1]
    best, at = values.clone(), S.clone()
    U = torch.zeros_like(R)
    t = best + 1.0
    mu, left = torch.ones(B, dtype=R.dtype), everyone
    for _ in range(_STEPS):
        slack = t[left, None, None] * eye - total(left, S[left])
        W = torch.linalg.inv(slack)
        K = rows[left]
        Q = torch.bmm(K, torch.bmm(W, K.mT))
        Q2 = torch.bmm(torch.bmm(K, W), torch.bmm(K, W).mT)
        by_t = 1 / mu[left] - W.diagonal(dim1=1, dim2=2).sum(1)
        slope = torch.cat([by_t[:, None], Q[:, a, b] - 1 / S[left]], dim=1)
        hessian = S.new_empty(len(left), a.numel() + 1, a.numel() + 1)
        hessian[:, 0, 0] = W.square().sum(dim=(1, 2))
        hessian[:, 0, 1:] = hessian[:, 1:, 0] = -Q2[:, a, b]
        cross = Q[:, a[:, None], a] * Q[:, b[:, None], b] + Q[:, a[:, None], b] * Q[:, b[:, None], a]
        hessian[:, 1:, 1:] = 0.5 * cross
        hessian.diagonal(dim1=1, dim2=2)[:, 1:].add_(S[left].square().reciprocal())
        scale = hessian.diagonal(dim1=1, dim2=2).sqrt()
        hessian = hessian / scale[:, :, None] / scale[:, None, :]
        hessian.diagonal(dim1=1, dim2=2).add_(1e-13)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        step = -torch.cholesky_solve((slope / scale)[:, :, None], factor).squeeze(2) / scale
        step = torch.where((failed == 0)[:, None], step, 0.0)
        decrement = -(step * slope).sum(1).clamp_max(0)
        length = 1 / (1 + decrement.sqrt())  # always inside the domain (self-concordance)
        length = torch.where(decrement < 0.05, 1.0, length)
        longer = (0.9 / (-step[:, 1:] / S[left]).amax(1).clamp_min(1e-300)).clamp_max(1.0)
        for trial in (longer, 0.5 * longer):  # boldly, where that stays inside
            M = (t[left] + trial * step[:, 0])[:, None, None] * eye
            M = M - total(left, S[left] + trial[:, None] * step[:, 1:])
            fits = (torch.linalg.cholesky_ex(M).info == 0) & (trial > length)
            length = torch.where(fits, trial, length)
        S[left] = (S[left] + length[:, None] * step[:, 1:]).clamp_min(1e-300)
        t[left] = t[left] + length * step[:, 0]
        U[left] = W / W.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        values = torch.linalg.eigvalsh(total(left, S[left]))[:, -1]
        better = values < best[left]
        best[left] = torch.where(better, values, best[left])
        at[left] = torch.where(better[:, None], S[left], at[left])
        t[left] = torch.maximum(t[left], values + 1e-15)
        mu[left] = torch.where(decrement < _CAUGHT_UP, _SHRINK * mu[left], mu[left])
        left = left[(best[left] > goal[left]) & (failed == 0) & (mu[left] * (a.numel() + p) > _ACCURACY)]
        if left.numel() == 0 or deadline.over():
            break
    return best, square(at), U
