"""An upper bound of cone-constrained PCA over the orthant: doubly non-negative matrices for completely positive ones.

For w ≥ 0 and S ≥ 0, entry by entry, wᵀSw ≥ 0.  So

    max ‖Cᵀw‖²  ≤  λ_max(CCᵀ + S)      over unit w ≥ 0,   for any S ≥ 0,

and the best S is the multiplier of U ≥ 0 in max ⟨CCᵀ, U⟩ over U ⪰ 0, U ≥ 0, tr U = 1 (CP eq. 20 for one pull).  That
is solved by splitting U into a copy that is positive semidefinite and one that is non-negative: an eigenproblem a step,
no matrix larger than U, and an S that certifies at every step, however far from the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline

_STEPS, _LOOK = 400, 10
_RELAXED = 1.6  # over-relaxation of the splitting
_UNEVEN, _FASTER = 3.0, 1.5  # residuals that far apart change ρ by so much,
_SETTLED = 200  # steps after which it stays
_LITTLE = 1e-9  # what a look must gain to go on, relatively,
_PATIENCE = 3  # and how often not
_EIGEN = 30.0  # multiply-adds of an eigenproblem, times the cube of its side


def eigen_work(side: int) -> float:
    """Multiply-adds, about, of one eigenproblem."""
    return _EIGEN * float(side) ** 3


def positive_part(A: Tensor) -> Tensor:
    """The nearest positive semidefinite matrix to a symmetric A (n, n)."""
    value, vectors = torch.linalg.eigh(A)
    few = vectors[:, value > 0] if 2 * int((value > 0).sum()) <= len(value) else None
    if few is not None:
        return (few * value[value > 0]) @ few.T
    rest = vectors[:, value <= 0]
    return A - (rest * value[value <= 0]) @ rest.T


def proven_square(C: Tensor, S: Tensor) -> float:
    """λ_max(CCᵀ + S), rounding included: an upper bound of max ‖Cᵀw‖² over unit w ≥ 0, for C (n, q) and S ≥ 0."""
    assert bool((S >= 0).all())
    depth = 8 * (sum(C.shape) + 4) * torch.finfo(C.dtype).eps
    top = float(torch.linalg.eigvalsh(C @ C.T + S)[-1])
    return max(top, 0.0) + depth * float(C.square().sum() + torch.linalg.matrix_norm(S))


@dataclass(frozen=True)
class Multipliers:
    """S ≥ 0 (n, n), symmetric, with a zero diagonal, the U it came with, and the bound that S proves of ‖Cᵀw‖²."""

    S: Tensor
    U: Tensor
    square: float


def tightened(C: Tensor, enough: float, starts: Sequence[tuple[Tensor, Tensor]] = ()) -> Multipliers:
    """The best bound of max ‖Cᵀw‖² over unit w ≥ 0 that this relaxation finds, for C (n, q) with ‖CCᵀ‖ about one.

    enough: a square that need not be tightened.  starts: S and U of pulls not far away.
    """
    n = len(C)
    M = C @ C.T
    cold = torch.zeros_like(M), torch.eye(n, dtype=C.dtype, device=C.device) / n
    known = [Multipliers(S, U, proven_square(C, S)) for S, U in (cold, *starts)]
    best = min(known, key=lambda found: found.square)
    rho, B = 1.0, best.U
    D = _negative(M + best.S - best.square * torch.eye(n, dtype=C.dtype, device=C.device)) / rho
    waited = 0
    for step in range(1, _STEPS + 1):
        if best.square <= enough or waited >= _PATIENCE or not deadline.affords(eigen_work(n)):
            break
        V = B - D + M / rho
        A = V.clamp_min(0)
        diagonal = V.diagonal()
        A.diagonal().copy_(diagonal + (1 - diagonal.sum()) / n)
        mixed = _RELAXED * A + (1 - _RELAXED) * B + D
        last, B = B, positive_part(mixed)
        D = mixed - B
        if step % _LOOK:
            continue
        S = (-rho * V).clamp_min(0)
        S.fill_diagonal_(0.0)
        S = 0.5 * (S + S.T)
        square = proven_square(C, S)
        waited = 0 if square < best.square * (1 - _LITTLE) else waited + 1
        if square < best.square:
            best = Multipliers(S, B, square)
        if step <= _SETTLED:
            factor = better_rho(A, B, last, D)
            rho, D = rho * factor, D / factor
    return best


def better_rho(A: Tensor, B: Tensor, last: Tensor, D: Tensor) -> float:
    """What ρ should be multiplied by, from both residuals of the splitting A = B, the last B, and the scaled dual D."""
    norm = torch.linalg.matrix_norm
    primal = float(norm(A - B) / norm(B).clamp_min(1e-300))
    dual = float(norm(B - last) / norm(D).clamp_min(1e-300))
    if primal > _UNEVEN * dual:
        return _FASTER
    return 1 / _FASTER if dual > _UNEVEN * primal else 1.0


def _negative(A: Tensor) -> Tensor:
    return A - positive_part(A)
