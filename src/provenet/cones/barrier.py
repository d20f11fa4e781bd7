"""min λ_max(R + Σ_m S_m sym(a_m b_mᵀ)) over S ≥ 0: a small semidefinite program, solved by a barrier method, in many
gates at once.  Its value is an upper bound of uᵀRu at any S, for unit u with aᵀu·bᵀu ≥ 0 for every pair."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from provenet import deadline
from provenet.space import Space

_STEPS = 60
_FIRST = 0.1  # weight of the barrier,
_SHRINK = 0.1  # and by how much it falls each time Newton has caught up with it
_CAUGHT_UP = 0.5  # Newton's decrement, squared
_BEGIN = 0.01  # what every S is raised by, to begin inside
_RIDGE, _MORE, _MOST_RIDGE = 1e-13, 1e3, 1e-3  # of a Hessian: more where pairs nearly coincide


class Pairs(NamedTuple):
    """left, right (B, M, p): two vectors each that make no obtuse angle with any u of the cone; zeros fill up.
    weight (B, M): what their rounding is in proportion to."""

    left: Tensor
    right: Tensor
    weight: Tensor

    def select(self, gates: Tensor) -> Pairs:
        return Pairs(*(part[gates] for part in self))

    def joined(self, other: Pairs) -> Pairs:
        return Pairs(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))

    def chosen(self, index: Tensor) -> Pairs:
        """Those of each gate that ``index`` (B, M') names."""
        wide = index[:, :, None].expand(-1, -1, self.left.shape[2])
        return Pairs(
            torch.gather(self.left, 1, wide), torch.gather(self.right, 1, wide), torch.gather(self.weight, 1, index)
        )

    def total(self, S: Tensor) -> Tensor:
        """Σ_m S_m sym(a_m b_mᵀ), (B, p, p) for S (B, M)."""
        half = torch.bmm((self.left * S[:, :, None]).mT, self.right)
        return 0.5 * (half + half.mT)


def a_step(pairs: int, p: int) -> float:
    """Multiply-adds of a step of Newton's in one gate, eigenvalues counted as what they take."""
    return pairs**3 / 3 + 4.0 * pairs * p * p + 5.0 * p**3


def minimise(R: Tensor, pairs: Pairs, start: Tensor, goal: Tensor, accuracy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For R (B, p, p) of norm one, from S = ``start`` (B, M) ≥ 0, down to ``goal`` or so accurately.

    Newton on t/μ − logdet(tI − R − …) − Σ log S_m while μ falls.  Returns the value (B,), an upper bound at any S, the
    S (B, M) there, and the relaxation's own U (B, p, p), of trace one.
    """
    B, p = R.shape[:2]
    M = pairs.left.shape[1]
    S = start + _BEGIN
    eye = Space.of(R).eye(p)
    everyone = torch.arange(B, device=R.device)
    best = torch.linalg.eigvalsh(R + pairs.total(S))[:, -1]
    at, U, t = S.clone(), torch.zeros_like(R), best + _FIRST
    mu, ridge, left = R.new_full((B,), _FIRST), R.new_full((B,), _RIDGE), everyone
    real = (pairs.left.abs().amax(2) > 0).to(R.dtype)  # what fills up has no barrier: it would run away
    for _ in range(_STEPS):
        own = pairs.select(left)
        W = torch.linalg.inv_ex(t[left, None, None] * eye - R[left] - own.total(S[left])).inverse
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
        hessian.diagonal(dim1=1, dim2=2).add_(ridge[left, None])
        factor, failed = torch.linalg.cholesky_ex(hessian)
        step = -torch.cholesky_solve((slope / scale)[:, :, None], factor).squeeze(2) / scale
        sound = (failed == 0) & torch.isfinite(step).all(1)
        step = torch.where(sound[:, None], step, 0.0)
        ridge[left] = torch.where(sound, ridge[left], _MORE * ridge[left])
        decrement = -(step * torch.where(sound[:, None], slope, 0.0)).sum(1).clamp_max(0)
        length = _lengths(R[left], own, S[left], t[left], step, decrement)
        S[left] = (S[left] + length[:, None] * step[:, 1:]).clamp_min(1e-300)
        t[left] = t[left] + length * step[:, 0]
        U[left] = W / W.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        values = torch.linalg.eigvalsh(R[left] + own.total(S[left]))[:, -1]
        better = values < best[left]
        best[left] = torch.where(better, values, best[left])
        at[left] = torch.where(better[:, None], S[left], at[left])
        t[left] = torch.maximum(t[left], values + 1e-15)
        mu[left] = torch.where((decrement < _CAUGHT_UP) & sound, _SHRINK * mu[left], mu[left])
        left = left[(best[left] > goal[left]) & (ridge[left] < _MOST_RIDGE) & (mu[left] * (M + p) > accuracy[left])]
        if left.numel() == 0 or not deadline.affords(left.numel() * a_step(M, p)):
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
