"""The two-layer MLP, linear or gated ReLU."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """x ↦ Σ_j 1{g_jᵀx ≥ 0} (u_jᵀx) v_j; without gates, x ↦ Σ_j (u_jᵀx) v_j (BM eq. 1, 5).

    first: (N, p), second: (N, q), gates: (N, p) or None.  With ``fit_intercept`` x gets a last entry of one, so
    p = d + 1 and the bias is penalised like any weight.  Inputs are cast to the weights' precision.
    """

    gates: Tensor | None

    def __init__(self, first: Tensor, second: Tensor, gates: Tensor | None = None, fit_intercept: bool = False):
        super().__init__()
        self.first = nn.Parameter(first.clone())
        self.second = nn.Parameter(second.clone())
        self.register_buffer("gates", None if gates is None else gates.clone())
        self.fit_intercept = fit_intercept

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) → (n, c)."""
        x = x.to(self.first.dtype)
        if self.fit_intercept:
            x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
        hidden = x @ self.first.T
        if self.gates is not None:
            hidden = hidden * (x @ self.gates.T >= 0)
        return hidden @ self.second

    def penalty(self) -> Tensor:
        """½(‖first‖² + ‖second‖²)."""
        return 0.5 * (self.first.square().sum() + self.second.square().sum())

    def extra_repr(self) -> str:
        n, p = self.first.shape
        kind = "linear" if self.gates is None else "gated_relu"
        return f"{p} → {n} neurons → {self.second.shape[1]}, {kind}, fit_intercept={self.fit_intercept}"
