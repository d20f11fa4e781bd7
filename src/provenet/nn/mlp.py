"""The two-layer MLP, linear, gated ReLU or ReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import Unpack

from provenet.nn.base import Neurons, TwoLayer


class MLP(TwoLayer):
    """x ↦ Σ_j 1{g_jᵀx ≥ 0} (u_jᵀx) v_j; without gates, x ↦ Σ_j (u_jᵀx) v_j (BM eq. 1, 5).  (n, d) → (n, c).

    Parameters
    ----------
    d : int
        Features.
    c : int
        Outputs.
    fit_intercept : bool, default False
        x gets a last entry of one, so p = d + 1 and the bias is penalised like any weight.
    **neurons
        ``rank``, ``n_gates``, ``activation`` and ``seed`` of a fresh module, as in `TwoLayer`.
    """

    def __init__(self, d: int, c: int, *, fit_intercept: bool = False, **neurons: Unpack[Neurons]):
        super().__init__(d + fit_intercept, c, **neurons)
        self._configure(fit_intercept)

    def _configure(self, fit_intercept: bool = False) -> None:
        self.fit_intercept = fit_intercept

    @property
    def settings(self) -> dict[str, Any]:
        return {"fit_intercept": self.fit_intercept}

    def lift(self, x: Tensor) -> Tensor:
        return torch.cat([x, torch.ones_like(x[:, :1])], dim=1) if self.fit_intercept else x

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(n, N)."""
        return x @ weights.T

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return hidden @ self.second
