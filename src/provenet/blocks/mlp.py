"""The MLP block: Φ_i = x_iᵀ, B_i(h, v) = h v (BM eq. 1, CP eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import nn as modules
from provenet.blocks.base import Block
from provenet.blocks.rows import Rows
from provenet.nn.settings import check_switch
from provenet.operators import MLPOperator


@dataclass(frozen=True)
class MLP(Block):
    """Two layers on the rows of a table, X (n, d).

    Parameters
    ----------
    fit_intercept : bool, default False
        X gets a last column of ones; its weights, the bias, are penalised like the others.
    """

    fit_intercept: bool = False

    name = "mlp"
    plain = True
    degree = 1
    order = 1
    module = modules.MLP

    def __post_init__(self) -> None:
        check_switch("fit_intercept", self.fit_intercept)

    def check(self, X: Tensor, outputs: int) -> None:
        if X.ndim != 2:
            raise ValueError(f"X: block 'mlp' needs shape (n, d), got {tuple(X.shape)}.")

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        return X.shape[1] + self.fit_intercept, outputs

    def rows(self, X: Tensor) -> Tensor:
        return torch.cat([X, torch.ones_like(X[:, :1])], dim=1) if self.fit_intercept else X

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        return (self.rows(X) @ vectors.T).unsqueeze(1)

    def size(self, X: Tensor) -> float:
        return max(super().size(X), float(self.fit_intercept))  # the column of ones counts

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> MLPOperator:
        pattern = torch.ones(len(rows.X), 1, dtype=torch.bool) if opened is None else opened.flatten(1).T
        return MLPOperator(self.rows(rows.X.to(torch.float64)) / scale, pattern, rows.outputs)
