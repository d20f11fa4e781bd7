"""Self-attention: Φ_i = X_i ⊗ X_i, B_i(H, W₂) = H X_i W₂ (AT eq. 11, 12, Thm 3.1, App. C.1; BM eq. 8, Lemma 3.9)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import batches
from provenet import nn as modules
from provenet.blocks.base import Block, check_tokens, written_down
from provenet.blocks.rows import Rows
from provenet.nn.attention import attend
from provenet.nn.settings import AttentionScale
from provenet.operators import MomentOperator, attention_operator


@dataclass(frozen=True)
class SelfAttention(AttentionScale, Block):
    """(X W₁ Xᵀ, gated by 1{X G Xᵀ ≥ 0}) X W₂.

    Numbers of tokens may vary by a mask: tokens that are not there are zero tokens, and ``mean`` does not count them.

    Parameters
    ----------
    scale : None or "sqrt_d"
        None leaves X W₁ Xᵀ as it is, like AT and BM; "sqrt_d" divides it by √d, as transformers do.
    """

    name = "attention"
    degree = 3
    order = 2
    module = modules.SelfAttention
    tokens = True
    masks = True

    def check(self, X: Tensor, outputs: int) -> None:
        check_tokens(self.name, X)

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        d = X.shape[2]
        return d * d, d * outputs

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        """x_tᵀ G x_r for every pair of tokens, (n, s², m)."""
        n, s, d = X.shape
        out = X.new_empty(n, s, s, len(vectors))
        for some in batches.slices(n, s * d * len(vectors), batches.PASS):
            x = X[some]
            out[some] = attend(x, vectors, x).transpose(2, 3)
        return out.flatten(1, 2)

    def rows(self, X: Tensor) -> Tensor | None:
        return written_down(self, X)

    def some_rows(self, X: Tensor, index: Tensor) -> Tensor:
        """x_t ⊗ x_r of sample i, for index (i·s + t)·s + r."""
        s = X.shape[1]
        tokens = X.flatten(0, 1)
        query, key = tokens[index // s], tokens[index // s**2 * s + index % s]
        return (query.unsqueeze(-1) * key.unsqueeze(-2)).flatten(-2)

    def row_lengths(self, X: Tensor) -> Tensor:
        size = torch.linalg.vector_norm(X, dim=2)
        return (size[:, :, None] * size[:, None, :]).flatten()

    def row_noise(self, X: Tensor) -> Tensor:
        """That of `noise`, of unit vectors at most, and of the products that rows are."""
        size = torch.linalg.vector_norm(X, dim=2)
        return ((2 * X.shape[2] + 12) * torch.finfo(X.dtype).eps * size[:, :, None] * size[:, None, :]).flatten()

    def noise(self, X: Tensor, vectors: Tensor) -> Tensor:
        """Two sums of d products, one after the other: 2d roundings and those of the products."""
        return (2 * X.shape[2] + 8) * torch.finfo(X.dtype).eps * self.sides(X.abs(), vectors.abs())

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> MomentOperator:
        divisor = self.divisor(rows.X.shape[2])
        return attention_operator(rows.X, opened, rows.outputs, rows.readout, divisor, rows.mask, scale)
