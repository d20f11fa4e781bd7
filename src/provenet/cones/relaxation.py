"""An upper bound of cone-constrained PCA: the dual of its copositive relaxation (CP eq. 3, §4.2), pair by pair.

For u with Ku ≥ 0 and rows a, b of K, or non-negative sums of rows, uᵀ(abᵀ)u ≥ 0.  So for any S ≥ 0

    max ‖Gᵀu‖²  ≤  λ_max(GGᵀ + Σ_m S_m sym(a_m b_mᵀ))      over unit u in the cone,

whatever the pairs and S are.  Few pairs matter, no more than a symmetric matrix has entries: those that the
relaxation's own solution U violates, aᵀUb < 0, join round by round, and those that carry least leave.  The best S of a
round is a small semidefinite program, solved by a barrier method for many gates at once, at first roughly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.cones.base import Table
from provenet.cones.projection import project
from provenet.space import Space

_ROUNDS = 24
_NEW = 2  # times p pairs join in each round
_STEPS = 80
_EACH, _MOST_WORK = 10, 3e10  # factorisations of a round, about, and multiply-adds of all rounds
_MOST_ROWS = 600  # looked at for violated pairs, of each gate
_SHRINK = 0.1  # of the barrier, each time Newton has caught up with it
_CAUGHT_UP = 0.5  # Newton's decrement, squared
_FIRST, _LAST = 1e-2, 1e-8  # accuracy of rounds, of λ_max(GGᵀ)
_FINER = 0.5  # from round to round; four times that where nothing is violated
_VIOLATED = 1e-9
_SORTED = 20.0  # multiply-adds that an entry among the least ones takes to be found


class Pairs(NamedTuple):
    """left, right (B, M, p): two rows each; zeros fill up.  weight (B, M): what their rounding is in proportion to."""

    left: Tensor
    right: Tensor
    weight: Tensor

    def select(self, gates: Tensor) -> Pairs:
        return Pairs(*(part[gates] for part in self))

    def total(self, S: Tensor) -> Tensor:
        """Σ_m S_m sym(a_m b_mᵀ), (B, p, p) for S (B, M)."""
        half = torch.bmm((self.left * S[:, :, None]).mT, self.right)
        return 0.5 * (half + half.mT)


def relaxed(cones: Table, G: Tensor, u: Tensor, target: Tensor) -> Tensor:
    """Upper bounds (B,) of max ‖G_kᵀu‖, for G (B, p, c), good points u (B, p) of the cones and bounds that suffice."""
    size = torch.linalg.svdvals(G)[:, 0].square().clamp_min(1e-300)
    goal = target.square() / size
    eps = torch.finfo(G.dtype).eps
    depth = 8 * (sum(G.shape[1:]) + cones.rows.shape[0] + 4) * eps  # of a sum of products of these lengths
    best = torch.full_like(size, 1 + depth)
    open_ = torch.nonzero(best > goal).flatten()
    p, first = G.shape[1], min(G.shape[1] + 4, cones.rows.shape[0])
    if open_.numel() == 0 or _work(len(open_), first) > _MOST_WORK or not deadline.affords(len(G) * _a_step(first, p)):
        return (best * size).sqrt() * (1 + 4 * eps)
    unit = torch.bmm(G, G.mT) / size[:, None, None]
    near, weight = _next_to(cones, u)
    pairs = _first_pairs(cones, unit, u, near, weight)
    accuracy = torch.full_like(best, _FIRST)
    pairs = pairs.select(open_)
    work = 0.0
    for _ in range(_ROUNDS):
        count, width = pairs.weight.shape
        work += _work(count, width)
        if count == 0 or work > _MOST_WORK or not deadline.affords(count * _a_step(width, p)):
            break
        value, S, U = _minimise(unit[open_], pairs, goal[open_], accuracy[open_])
        best[open_] = torch.minimum(best[open_], value + depth * (1 + (S * pairs.weight).sum(1)))
        if not deadline.affords(count * _a_search(cones, p)):
            break
        more, violated = _violated(cones.restrict(open_), U, near[open_], weight[open_])
        going = (violated | (accuracy[open_] > _LAST)) & (best[open_] > goal[open_])
        accuracy[open_] = accuracy[open_] * torch.where(violated, _FINER, _FINER**4)
        open_, pairs = open_[going], _joined(pairs, S, more).select(going)
    return (best.clamp_min(0) * size).sqrt() * (1 + 4 * eps)


def _work(gates: int, pairs: int) -> float:
    """Multiply-adds of a round, about."""
    return _EACH * gates * float(pairs) ** 3


def _a_step(pairs: int, p: int) -> float:
    """Multiply-adds of a step of Newton's in one gate, eigenvalues counted as what they take."""
    return pairs**3 / 3 + 4.0 * pairs * p * p + 5.0 * p**3


def _a_search(cones: Table, p: int) -> float:
    """Multiply-adds of looking for violated pairs in one gate, sorting counted as what it takes."""
    return min(cones.rows.shape[0], _MOST_ROWS) ** 2 * (p + _SORTED)


def _next_to(cones: Table, u: Tensor) -> tuple[Tensor, Tensor]:
    """Kᵀλ, λ ≥ 0, the point (B, p) of the dual cone next to u, and what its rounding is in proportion to (B,)."""
    found = project(cones.rows, cones.signs, -u)  # −u + Kᵀλ
    return found.point + u, 1 + found.multipliers.sum(1)


def _first_pairs(cones: Table, R: Tensor, u: Tensor, near: Tensor, weight: Tensor) -> Pairs:
    """The rows that hold u back, and those next to tight, each with the sum of rows next to u.

    At a maximum GGᵀu = λu − Σ_a μ_a a, and S = μ_a on the pairs (a, u) makes u an eigenvector of the sum.
    """
    slack = (u @ cones.rows.T) * cones.signs
    held = project(cones.rows, cones.signs, torch.bmm(R, u[:, :, None]).squeeze(2))
    slack.scatter_add_(1, held.rows, -held.multipliers)
    slack.masked_fill_(torch.linalg.vector_norm(cones.rows, dim=1) == 0, torch.inf)
    few = min(u.shape[1] + 4, cones.rows.shape[0])
    chosen = torch.topk(slack, few, dim=1, largest=False).indices
    left = cones.rows[chosen] * torch.gather(cones.signs, 1, chosen)[:, :, None]
    return Pairs(left, near[:, None].expand_as(left), weight[:, None].expand(-1, few))


def _violated(cones: Table, U: Tensor, near: Tensor, weight: Tensor) -> tuple[Pairs, Tensor]:
    """The pairs of the most negative aᵀUb, about p a gate, for U (B, p, p); and whether there are any (B,)."""
    B, p, _ = U.shape
    N = min(cones.rows.shape[0], _MOST_ROWS) + 1
    together = batches.count(N * N, batches.BLOCK)
    if together < B:
        parts = torch.arange(B, device=U.device).split(together)
        found = [_violated(cones.restrict(some), U[some], near[some], weight[some]) for some in parts]
        joined = Pairs(*(torch.cat(part) for part in zip(*(pairs for pairs, _ in found), strict=True)))
        return joined, torch.cat([any_ for _, any_ in found])
    rows = torch.cat([_extreme_rows(cones, U), near[:, None]], dim=1)
    weights = U.new_ones(B, rows.shape[1])
    weights[:, -1] = weight
    entries = torch.bmm(torch.bmm(rows, U), rows.mT).triu_(1).flatten(1)
    value, place = torch.topk(entries, min(_NEW * p, entries.shape[1]), dim=1, largest=False)
    a, b = place // rows.shape[1], place % rows.shape[1]
    b_of = torch.arange(B, device=U.device)[:, None]
    negative = value < -_VIOLATED
    alive = negative[:, :, None]
    return Pairs(rows[b_of, a] * alive, rows[b_of, b] * alive, weights[b_of, a] * weights[b_of, b]), negative.any(1)


def _extreme_rows(cones: Table, U: Tensor) -> Tensor:
    """Signed rows (B, m, p): all, or those furthest to either side of U's top eigenvector."""
    if cones.rows.shape[0] <= _MOST_ROWS:
        return cones.rows * cones.signs[:, :, None]
    top = torch.linalg.eigh(U)[1][:, :, -1]
    order = torch.argsort((top @ cones.rows.T) * cones.signs, dim=1)
    chosen = torch.cat([order[:, : _MOST_ROWS // 2], order[:, -(_MOST_ROWS // 2) :]], dim=1)
    return cones.rows[chosen] * torch.gather(cones.signs, 1, chosen)[:, :, None]


def _joined(pairs: Pairs, S: Tensor, more: Pairs) -> Pairs:
    """The pairs that carry most, as many as a symmetric matrix has entries, and ``more``."""
    p = pairs.left.shape[2]
    kept = torch.topk(S * pairs.weight, min(p * (p + 1) // 2, S.shape[1]), dim=1).indices
    sides = (torch.gather(side, 1, kept[:, :, None].expand(-1, -1, p)) for side in pairs[:2])
    old = (*sides, torch.gather(pairs.weight, 1, kept))
    return Pairs(*(torch.cat(both, dim=1) for both in zip(old, more, strict=True)))


def _minimise(R: Tensor, pairs: Pairs, goal: Tensor, accuracy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """min λ_max(R + Σ S_m sym(a_m b_mᵀ)) over S ≥ 0, for R (B, p, p) of norm one, down to ``goal`` or so accurately.

    Newton on t/μ − logdet(tI − R − …) − Σ log S_m while μ falls.  Returns the value (B,), an upper bound at any S, the
    S (B, M) there, and the relaxation's own U (B, p, p), of trace one.
    """
    B, p = R.shape[:2]
    M = pairs.left.shape[1]
    S = R.new_full((B, M), 0.01)
    eye = Space.of(R).eye(p)
    everyone = torch.arange(B, device=R.device)
    best = torch.linalg.eigvalsh(R + pairs.total(S))[:, -1]
    at, U, t = S.clone(), torch.zeros_like(R), best + 1.0
    mu, left = R.new_ones(B), everyone
    real = (pairs.left.abs().amax(2) > 0).to(R.dtype)  # what fills up has no barrier: it would run away
    for _ in range(_STEPS):
        own = pairs.select(left)
        W = torch.linalg.inv(t[left, None, None] * eye - R[left] - own.total(S[left]))
        LW, RW = torch.bmm(own.left, W), torch.bmm(own.right, W)
        cross = torch.bmm(LW, own.right.mT)
        by_t, by_S = 1 / mu[left] - W.diagonal(dim1=1, dim2=2).sum(1), (LW * own.right).sum(2) - real[left] / S[left]
        slope = torch.cat([by_t[:, None], by_S], dim=1)
        hessian = S.new_empty(len(left), M + 1, M + 1)
        hessian[:, 0, 0] = W.square().sum(dim=(1, 2))
        hessian[:, 0, 1:] = hessian[:, 1:, 0] = -(LW * RW).sum(2)
        hessian[:, 1:, 1:] = 0.5 * (torch.bmm(LW, own.left.mT) * torch.bmm(RW, own.right.mT) + cross * cross.mT)
        hessian.diagonal(dim1=1, dim2=2)[:, 1:].add_(S[left].square().reciprocal())
        scale = hessian.diagonal(dim1=1, dim2=2).sqrt()
        hessian = hessian / scale[:, :, None] / scale[:, None, :]
        hessian.diagonal(dim1=1, dim2=2).add_(1e-13)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        step = -torch.cholesky_solve((slope / scale)[:, :, None], factor).squeeze(2) / scale
        step = torch.where((failed == 0)[:, None], step, 0.0)
        decrement = -(step * slope).sum(1).clamp_max(0)
        length = _lengths(R[left], own, S[left], t[left], step, decrement)
        S[left] = (S[left] + length[:, None] * step[:, 1:]).clamp_min(1e-300)
        t[left] = t[left] + length * step[:, 0]
        U[left] = W / W.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        values = torch.linalg.eigvalsh(R[left] + own.total(S[left]))[:, -1]
        better = values < best[left]
        best[left] = torch.where(better, values, best[left])
        at[left] = torch.where(better[:, None], S[left], at[left])
        t[left] = torch.maximum(t[left], values + 1e-15)
        mu[left] = torch.where(decrement < _CAUGHT_UP, _SHRINK * mu[left], mu[left])
        left = left[(best[left] > goal[left]) & (failed == 0) & (mu[left] * (M + p) > accuracy[left])]
        if left.numel() == 0 or not deadline.affords(left.numel() * _a_step(M, p)):
            break
    return best, at * real, U


def _lengths(R: Tensor, pairs: Pairs, S: Tensor, t: Tensor, step: Tensor, decrement: Tensor) -> Tensor:
    """How far a step may go (B,): as far as self-concordance allows, and boldly where that stays inside."""
    length = torch.where(decrement < 0.05, 1.0, 1 / (1 + decrement.sqrt()))
    longer = (0.9 / (-step[:, 1:] / S).amax(1).clamp_min(1e-300)).clamp_max(1.0)
    eye = Space.of(R).eye(R.shape[1])
    for trial in (longer, 0.5 * longer):
        slack = (t + trial * step[:, 0])[:, None, None] * eye - R - pairs.total(S + trial[:, None] * step[:, 1:])
        fits = (torch.linalg.cholesky_ex(slack).info == 0) & (trial > length)
        length = torch.where(fits, trial, length)
    return length
