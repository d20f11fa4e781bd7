"""Small symmetric blocks (P, m, m) and their Nesterov–Todd scaling; blocks of one number need no LAPACK."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LinAlgError = torch.linalg.LinAlgError


@dataclass(frozen=True)
class Scaling:
    """T_k = G_k Λ_k G_kᵀ and R_k = G_k⁻ᵀ Λ_k G_k⁻¹: one basis in which both are the same diagonal.

    G (P, m, m), dual = G⁻ᵀ (P, m, m), lam (P, m).  T and R are never formed, so that neither loses its small
    eigenvalues to the rounding of its large ones.
    """

    G: Tensor
    dual: Tensor
    lam: Tensor

    @property
    def to_unit(self) -> Tensor:
        """What a block (P, m, m) is multiplied by, entry by entry, for coordinates in which T = R = I."""
        half = self.lam.rsqrt()
        return half[:, :, None] * half[:, None, :]

    @staticmethod
    def between(T: Tensor, R: Tensor) -> Scaling:
        one = torch.eye(T.shape[-1], dtype=T.dtype).expand_as(T)
        return Scaling(one, one, T.new_ones(T.shape[:2]))._rescaled(root(T), root(R))

    def moved(self, dT: Tensor, dR: Tensor) -> Scaling:
        """After a step, both given in this scaling's coordinates."""
        Lam = torch.diag_embed(self.lam)
        return self._rescaled(root(Lam + dT), root(Lam + dR))

    def _rescaled(self, CT: Tensor, CR: Tensor) -> Scaling:
        """The scaling of G CT (G CT)ᵀ and G⁻ᵀ CR (G⁻ᵀ CR)ᵀ, by the SVD of CRᵀ CT."""
        if CT.shape[-1] == 1:
            lam = CT * CR
            factor = (CT / CR).sqrt()
            return Scaling(self.G * factor, self.dual / factor, lam[:, :, 0])
        U, lam, Vh = torch.linalg.svd(CR.mT @ CT)
        inverse_root = lam.rsqrt()[:, None, :]
        return Scaling(self.G @ CT @ Vh.mT * inverse_root, self.dual @ CR @ U * inverse_root, lam)


def root(blocks: Tensor) -> Tensor:
    """C_k with C_k C_kᵀ the block; raises LinAlgError where a block is not positive definite."""
    if blocks.shape[-1] > 1:
        return torch.linalg.cholesky(blocks)
    if not bool((blocks > 0).all()):
        raise LinAlgError("a block is not positive")
    return blocks.sqrt()


def smallest_eigenvalue(blocks: Tensor) -> float:
    """Over all blocks."""
    if blocks.shape[-1] == 1:
        return float(blocks.min())
    return float(torch.linalg.eigvalsh(blocks)[:, 0].min())


def to_vector(blocks: Tensor) -> Tensor:
    """(P, m, m) → (P·m(m+1)/2,), keeping inner products."""
    i, j, size = _triangle(blocks.shape[-1], blocks.dtype)
    return (blocks[:, i, j] * size).reshape(-1)


def to_blocks(vector: Tensor, m: int) -> Tensor:
    """The inverse of `to_vector`."""
    i, j, size = _triangle(m, vector.dtype)
    entries = vector.view(-1, len(i)) / size
    out = vector.new_empty(entries.shape[0], m, m)
    out[:, i, j] = entries
    out[:, j, i] = entries
    return out


def _triangle(m: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    i, j = torch.triu_indices(m, m)
    return i, j, torch.where(i == j, 1.0, 2**0.5).to(dtype)
