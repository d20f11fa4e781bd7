"""The MLP block: Φ_i = x_iᵀ, B_i(h, v) = h v (BM eq. 1, CP eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from provenet import nn as modules
from provenet.blocks.base import Block
from provenet.operators import MLPOperator
from provenet.variable import Factors


@dataclass(frozen=True)
class MLP(Block):
    """With ``fit_intercept`` X gets a last column of ones; its weights, the bias, are penalised like the others."""

    fit_intercept: bool = False

    name = "mlp"
    degree = 1

    def check(self, X: Tensor) -> None:
        if X.ndim != 2:
            raise ValueError(f"X: block 'mlp' needs shape (n, d), got {tuple(X.shape)}.")

    def rows(self, X: Tensor) -> Tensor:
        return torch.cat([X, torch.ones_like(X[:, :1])], dim=1) if self.fit_intercept else X

    def size(self, X: Tensor) -> float:
        return max(super().size(X), float(self.fit_intercept))  # the column of ones counts

    def operator(self, X: Tensor, patterns: Tensor, outputs: int, scale: float) -> MLPOperator:
        return MLPOperator(self.rows(X) / scale, patterns, outputs)

    def network(self, factors: Factors, gate_vectors: Tensor | None, outputs: int) -> modules.MLP:
        gates = None if gate_vectors is None else gate_vectors[factors.gate]
        return modules.MLP(factors.left, factors.right, gates, self.fit_intercept)

    def neurons(self, network: nn.Module) -> tuple[Tensor, Tensor, Tensor | None]:
        if not isinstance(network, modules.MLP):
            raise ValueError(f"network: expected a provenet.nn.MLP, got {type(network).__name__}.")
        if network.fit_intercept != self.fit_intercept:
            raise ValueError(
                f"network: fit_intercept is {network.fit_intercept}, but the problem's is {self.fit_intercept}."
            )
        return network.first.detach(), network.second.detach(), network.gates
