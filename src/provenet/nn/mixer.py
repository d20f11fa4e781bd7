"""The MLP-Mixer, linear, gated ReLU or ReLU (AT eq. 17)."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor
from typing_extensions import Unpack

from provenet.nn.base import Neurons, OnTokens


class Mixer(OnTokens):
    """X (s, d) ↦ Σ_j (D_j ∘ W₁ⱼX) W₂ⱼ, D_j = 1{G_jX ≥ 0}, then the readout.

    Rows of ``first`` and ``gates`` are W₁ (s, s), rows of ``second`` W₂ (d, c), row-major.

    Parameters
    ----------
    s, d, c, readout, **neurons
        As in `FNO`.
    """

    def __init__(self, s: int, d: int, c: int, *, readout: str = "mean", **neurons: Unpack[Neurons]):
        super().__init__(s * s, d * c, fan=d, **neurons)
        self._configure(readout)

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(b, N, s, d)."""
        return mix_tokens(x, weights)

    def laid_out(self, hidden: Tensor) -> Tensor:
        """(b, s, N·d)."""
        return hidden.transpose(1, 2).flatten(2)

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        d = x.shape[2]
        second = self.second.view(hidden.shape[1], d, self.second.shape[1] // d)
        if self.readout == "mean":
            return hidden.mean(2).flatten(1) @ second.flatten(0, 1)
        return torch.einsum("bntf,nfc->btc", hidden, second)


def mix_tokens(x: Tensor, weights: Tensor) -> Tensor:
    """W X for every W (s, s) in weights (m, s²): (b, s, d) → (b, m, s, d)."""
    m, s = weights.shape[0], isqrt(weights.shape[1])
    return (weights.reshape(m * s, s) @ x).view(x.shape[0], m, s, x.shape[2])
