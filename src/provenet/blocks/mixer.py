"""The MLP-Mixer block: Φ_i = X_iᵀ ⊗ I_s, B_i(H, W₂) = H W₂ (AT eq. 17, Thm 4.1, C.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from provenet import nn as modules
from provenet.blocks.base import Block, check_tokens, written_down
from provenet.blocks.rows import Rows
from provenet.nn.mixer import mix_tokens
from provenet.operators import Operator
from provenet.operators.blocks.mixer import MixerColumnsOperator, MixerMeanOperator, MixerTokensOperator
from provenet.operators.wrappers.repeated import RepeatedOperator


@dataclass(frozen=True)
class Mixer(Block):
    """u is W₁ (s, s), v is W₂ (d, c), output (W₁X, gated) W₂; the arrangement's rows are (token, feature)."""

    name = "mixer"
    degree = 1
    order = 1
    tokens = True
    module = modules.Mixer

    def check(self, X: Tensor, outputs: int) -> None:
        check_tokens(self.name, X)

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        _, s, d = X.shape
        return s * s, d * outputs

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        return mix_tokens(X, vectors).permute(0, 2, 3, 1).flatten(1, 2)

    def rows(self, X: Tensor) -> Tensor | None:
        return written_down(self, X)

    def some_rows(self, X: Tensor, index: Tensor) -> Tensor:
        """X_i[:, f] in row t of W₁, for index (i·s + t)·d + f."""
        _, s, d = X.shape
        column = X.transpose(1, 2)[index // (s * d), index % d]  # (…, s)
        return (one_hot(index // d % s, s).to(X.dtype).unsqueeze(-1) * column.unsqueeze(-2)).flatten(-2)

    def row_parts(self, X: Tensor) -> int:
        """Those of token t are in row t of W₁."""
        return int(X.shape[1])

    def row_lengths(self, X: Tensor) -> Tensor:
        return torch.linalg.vector_norm(X, dim=1)[:, None].expand(-1, X.shape[1], -1).flatten()

    def noise(self, X: Tensor, vectors: Tensor) -> Tensor:
        depth = isqrt(vectors.shape[1]) + 8
        return depth * torch.finfo(X.dtype).eps * self.sides(X.abs(), vectors.abs())

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> Operator:
        if rows.readout == "tokens":
            return MixerTokensOperator(rows.X, opened, rows.outputs, scale)
        if opened is None:
            return RepeatedOperator(MixerColumnsOperator(rows.X, rows.outputs, scale), rows.X.shape[1])
        return MixerMeanOperator(rows.X, opened, rows.outputs, scale)
