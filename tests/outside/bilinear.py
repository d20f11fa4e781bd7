"""A block of a user's: pairs of vectors (a, b) in X (n, 2, d), neurons aᵀ W b; Φ_i = a ⊗ b, one row a sample."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.blocks import Block, Rows
from provenet.nn import TwoLayer
from provenet.operators import MLPOperator


def products(X: Tensor) -> Tensor:
    """a ⊗ b of every pair, (n, d²)."""
    return (X[:, 0, :, None] * X[:, 1, None, :]).flatten(1)


class BilinearNetwork(TwoLayer):
    """(a, b) ↦ Σ_j D_j (aᵀ W_j b) v_j."""

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        return products(x) @ weights.T

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return hidden @ self.second


@dataclass(frozen=True)
class Bilinear(Block):
    name = "bilinear"
    degree = 2
    order = 2
    module = BilinearNetwork

    def check(self, X: Tensor, outputs: int) -> None:
        if X.ndim != 3 or X.shape[1] != 2:
            raise ValueError(f"X: block 'bilinear' needs pairs (n, 2, d), got {tuple(X.shape)}.")

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        return X.shape[2] ** 2, outputs

    def rows(self, X: Tensor) -> Tensor:
        return products(X)

    def row_noise(self, X: Tensor) -> Tensor:
        return 2 * torch.finfo(X.dtype).eps * torch.linalg.vector_norm(products(X), dim=1)

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        return (products(X) @ vectors.T).unsqueeze(1)

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> MLPOperator:
        pattern = torch.ones(len(rows.X), 1, dtype=torch.bool) if opened is None else opened.flatten(1).T
        return MLPOperator(products(rows.X.to(torch.float64) / scale), pattern, rows.outputs)
