"""The Fourier blocks: Φ_i = circ(X_i), B_i(h, v) = h vᵀ (AT eq. 23, 28, Thm 4.4, 4.7, C.3, C.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import nn as modules
from provenet.blocks.base import Block, check_tokens, written_down
from provenet.blocks.rows import Rows
from provenet.nn.fourier import correlate, spectrum
from provenet.nn.settings import InGroups, OnGrid
from provenet.operators import Operator, TokenMeanOperator
from provenet.operators.blocks.fourier import FNOTokensOperator
from provenet.operators.blocks.fourier_mean import FNOMeanOperator
from provenet.operators.wrappers.repeated import RepeatedOperator


@dataclass(frozen=True)
class FNO(OnGrid, Block):
    """u is (s, d), v (c,): h[t] = Σ_τf X[(t+τ) mod s, f] u[τ, f], output h vᵀ.

    Parameters
    ----------
    grid : (height, width), optional
        How tokens lie, row-major; the shift is cyclic in both directions.  None: a sequence.
    """

    name = "fno"
    degree = 1
    tokens = True
    module = modules.FNO

    def check(self, X: Tensor, outputs: int) -> None:
        check_tokens(self.name, X)
        self.grid_of(X.shape[1])

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        return X.shape[1] * X.shape[2], outputs

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        return correlate(spectrum(X, self.grid), vectors, self.grid)

    def rows(self, X: Tensor) -> Tensor | None:
        return written_down(self, X)

    def some_rows(self, X: Tensor, index: Tensor) -> Tensor:
        """X_i, its tokens shifted by t in a circle, for index i·s + t."""
        s = X.shape[1]
        height, width = self.grid_of(s)
        shift, token = (index % s).unsqueeze(-1), torch.arange(s)
        row = (shift // width + token // width) % height
        column = (shift % width + token % width) % width
        return X[(index // s).unsqueeze(-1), row * width + column].flatten(-2)

    def row_lengths(self, X: Tensor) -> Tensor:
        """A shift changes none."""
        return torch.linalg.vector_norm(X, dim=(1, 2)).repeat_interleave(X.shape[1])

    def row_noise(self, X: Tensor) -> Tensor:
        return self.noise(X, torch.eye(1, X.shape[1] * X.shape[2], dtype=X.dtype)).flatten()

    def noise(self, X: Tensor, vectors: Tensor) -> Tensor:
        # an FFT errs by its signal's length, at any entry: three of them as in `FourierOperator.depth`, and sums over d
        s, d = X.shape[1:]
        depth = 3 * (s + 20) * s**0.5 + 2 * d + 20
        lengths = torch.linalg.vector_norm(X, dim=(1, 2))[:, None] * torch.linalg.vector_norm(vectors, dim=1)
        return (depth * torch.finfo(X.dtype).eps * s**0.5 * lengths).unsqueeze(1).expand(-1, s, -1)

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> Operator:
        X, s, outputs = rows.X, rows.X.shape[1], rows.outputs
        grid = self.grid_of(s)
        if rows.readout == "tokens":
            return FNOTokensOperator(X, opened, outputs, grid, scale)
        if opened is None:  # shifts leave the mean as it is
            root = s**0.5
            return RepeatedOperator(TokenMeanOperator(X, None, outputs, _same, 1 / root, scale / root), s)
        # features are kept for their axes, which groups, that keep as much each, do not have
        return FNOMeanOperator(X, opened, outputs, grid, scale, self.groups**2)


@dataclass(frozen=True)
class BFNO(InGroups, FNO):
    """An FNO in ``groups``: d/groups features of group b into the c/groups outputs of group b.

    Parameters
    ----------
    grid : (height, width), optional
        How tokens lie, row-major; the shift is cyclic in both directions.  None: a sequence.
    groups : int, default 1
        Into so many groups features and outputs are divided; it divides the number of both.
    """

    name = "bfno"
    module = modules.BFNO

    def check(self, X: Tensor, outputs: int) -> None:
        super().check(X, outputs)
        self.check_groups(X.shape[2], outputs)

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        return X.shape[1] * X.shape[2] // self.groups, outputs // self.groups

    def split(self, X: Tensor) -> Sequence[Tensor]:
        """The features of each group, (n, s, d/groups)."""
        return X.tensor_split(self.groups, dim=2)


def _same(x: Tensor) -> Tensor:
    return x
