"""Blocks that mix tokens without weights: Φ_i = h(X_i), B_i(h, v) = h vᵀ (AT eq. 158–160, App. C.5, C.7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from provenet import nn as modules
from provenet.blocks.base import Block, check_tokens
from provenet.blocks.rows import Rows
from provenet.nn.settings import Neighbourhood
from provenet.nn.tokens import pool_tokens
from provenet.operators import Operator, TokenMeanOperator, TokenRowsOperator

_SPLIT = 256  # samples a function sees at a time


class TokenBlock(Block):
    """`transform` is h; ``growth(X)`` bounds ‖h(X_i)‖_F by its multiple of ‖X_i‖_F."""

    degree = 1
    tokens = True

    @abstractmethod
    def transform(self, X: Tensor) -> Tensor:
        """h(X), (n, s, d) → (n, s, p)."""

    def growth(self, X: Tensor) -> float:
        return 2.0  # an average of tokens, each of which counts in at most four times its share of them

    def check(self, X: Tensor, outputs: int) -> None:
        check_tokens(self.name, X)

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        return self.transform(X[:1].to(torch.float64)).shape[2], outputs

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        return self.transform(X) @ vectors.T

    def rows(self, X: Tensor) -> Tensor:
        return self.transform(X).flatten(0, 1)

    def row_noise(self, X: Tensor) -> Tensor:
        tokens, p = self.transform(X[:1]).shape[1:]
        first = torch.eye(1, p, dtype=X.dtype)
        return self.noise(X, first).expand(-1, tokens, -1).flatten()

    def noise(self, X: Tensor, vectors: Tensor) -> Tensor:
        eps = torch.finfo(X.dtype).eps
        depth = vectors.shape[1] + 100
        size = self.growth(X) * torch.linalg.vector_norm(X, dim=(1, 2))[:, None, None]
        return depth * eps * size * torch.linalg.vector_norm(vectors, dim=1)  # (n, 1, m): the same for all tokens

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> Operator:
        kind = TokenRowsOperator.of if rows.readout == "tokens" else TokenMeanOperator
        return kind(rows.X, opened, rows.outputs, self.transform, self.growth(rows.X), scale)


@dataclass(frozen=True)
class PoolFormer(Neighbourhood, TokenBlock):
    """h(X) = PX: each token's ``window`` × ``window`` neighbourhood on the grid, averaged; then two layers.

    Parameters
    ----------
    grid : (height, width), optional
        How tokens lie, row-major.  None: a square.
    window : int, default 3
        The side of a neighbourhood, odd; cells beyond the grid's edge do not count.
    """

    name = "poolformer"
    module = modules.PoolFormer

    def check(self, X: Tensor, outputs: int) -> None:
        super().check(X, outputs)
        self.check_window(X.shape[1])

    def transform(self, X: Tensor) -> Tensor:
        return pool_tokens(X, self)


@dataclass(frozen=True)
class FNet(TokenBlock):
    """h(X) = Re(F_s X F_dᵀ), F without scaling: the Fourier transform over tokens and features."""

    name = "fnet"
    module = modules.FNet

    def transform(self, X: Tensor) -> Tensor:
        return torch.fft.fft2(X).real

    def growth(self, X: Tensor) -> float:
        return float(X.shape[1] * X.shape[2]) ** 0.5


@dataclass(frozen=True)
class TokenMap(TokenBlock):
    """Two layers behind h(X) by a function of yours (AT eq. 160).

    Parameters
    ----------
    function : callable
        (n, s, d) → (n, s', p), each sample by itself.  It has no weights to train, and is taken as it computes in
        float64.
    """

    function: Callable[[Tensor], Tensor]

    name = "token_map"
    module = modules.TokenMap

    def check(self, X: Tensor, outputs: int) -> None:
        super().check(X, outputs)
        if not callable(self.function):
            raise ValueError(f"function: something that can be called is needed, got {self.function!r}.")
        some = X[:_SPLIT].to(torch.float64).clone()
        rows = self.function(some)
        if not torch.equal(some, X[:_SPLIT].to(torch.float64)):
            raise ValueError("function: it changes its input in place; let it make numbers of its own.")
        if isinstance(rows, Tensor) and rows.dtype != torch.float64:
            raise ValueError(f"function: of float64 it must make float64, got {rows.dtype}.")
        if not isinstance(rows, Tensor) or rows.ndim != 3 or rows.shape[0] != some.shape[0]:
            found = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise ValueError(f"function: of {tuple(some.shape)} it must make (n, s, p), got {found}.")
        for i in (0, len(some) // 2, len(some) - 1):
            alone = self.function(some[i : i + 1])[0]
            if alone.shape != rows[i].shape or not torch.allclose(alone, rows[i], rtol=1e-9, atol=1e-12):
                raise ValueError(
                    "function: it makes of a sample alone something else than of the same sample among others; "
                    "it must treat every sample by itself, the same each time."
                )

    def transform(self, X: Tensor) -> Tensor:
        return self.function(X)

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> Operator:
        # of X itself, whatever the scale: h need not be homogeneous
        at_scale = TokenMap(lambda x: self.function(x * scale) / scale)
        return TokenBlock.operator(at_scale, rows, opened, scale)

    def growth(self, X: Tensor) -> float:
        sizes, images = [], []
        for x in X.split(_SPLIT):
            x = x.to(torch.float64)
            sizes.append(torch.linalg.vector_norm(x.flatten(1), dim=1))
            images.append(torch.linalg.vector_norm(self.function(x).flatten(1), dim=1))
        size = torch.cat(sizes)
        floor = max(1e-8 * float(size.max()), torch.finfo(torch.float64).tiny)  # samples of zeros may have h(0) ≠ 0
        return float((torch.cat(images) / size.clamp_min(floor)).max())

    def settings(self) -> dict[str, Any]:
        return {"function": self.function}
