"""Self-attention, linear, gated ReLU or ReLU (AT eq. 11, 12; BM eq. 8)."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor
from typing_extensions import Unpack

from provenet.nn.base import Neurons, OnTokens, in_precision_of, read_out
from provenet.nn.settings import AttentionScale


class SelfAttention(OnTokens):
    """X (s, d) ↦ Σ_j (D_j ∘ X W₁ⱼ Xᵀ) X W₂ⱼ, D_j = 1{X G_j Xᵀ ≥ 0}, then the readout.

    A neuron is a head: its row of ``first`` is W₁ (d, d), of ``second`` W₂ (d, c), both row-major.  With a ``mask`` (b,
    s), true where a token is there, the others are zero tokens, which get no bias, and ``mean`` does not count them.

    Parameters
    ----------
    d, c, readout, **neurons
        As in `FNO`.
    scale : None or "sqrt_d"
        None leaves X W₁ Xᵀ as it is, like AT and BM; "sqrt_d" divides it by √d, as transformers do.
    """

    kind = AttentionScale

    def __init__(self, d: int, c: int, *, readout: str = "mean", scale: str | None = None, **neurons: Unpack[Neurons]):
        super().__init__(d * d, d * c, fan=d, **neurons)
        self._configure(readout, scale=scale)

    @property
    def d(self) -> int:
        return isqrt(self.first.shape[1])

    def _tokens(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x as it is worked on, tokens that are not there set to zero."""
        if x.ndim != 3 or x.shape[2] != self.d:
            raise ValueError(f"x: tokens of shape (b, s, {self.d}) are needed, got {tuple(x.shape)}.")
        x = in_precision_of(self.first, x)
        if mask is not None:
            if mask.shape != x.shape[:2]:
                raise ValueError(f"mask: shape {tuple(x.shape[:2])} is needed, got {tuple(mask.shape)}.")
            x = x.masked_fill(~mask.bool().unsqueeze(2), 0)
        return x

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self._tokens(x, mask)
        if self.activation == "linear":  # the sum of the queries, if it is all that counts: s times less work
            hidden = attend(x.sum(1, keepdim=True) if self.readout == "mean" else x, self.first, x)
        else:
            hidden = self.activated(x, self.hidden(x, self.first))
            if self.readout == "mean":
                hidden = hidden.sum(1, keepdim=True)
        output = self.output(x, hidden)
        if self.readout == "tokens":
            biased = self.biased(output)
            return biased if mask is None else torch.where(mask.bool().unsqueeze(2), biased, output)
        return self.biased(output.squeeze(1) / (x.shape[1] if mask is None else mask.sum(1, keepdim=True).clamp_min(1)))

    def features(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, s, N·s): what a token's query makes of all keys, one head after the other."""
        x = self._tokens(x, mask)
        return self.activated(x, self.hidden(x, self.first)).flatten(2)

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """X W Xᵀ for every head, (b, s, N, s)."""
        return attend(x, weights, x)

    def predicted(self, x: Tensor, hidden: Tensor) -> Tensor:
        return read_out(self.output(x, hidden), self.readout)

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Σ_j H_j X W₂ⱼ, (b, m, c), for hidden values (b, m, N, s) of m queries."""
        b, m, N, s = hidden.shape
        d = self.d
        if self.chosen.scale is not None:
            hidden = hidden / self.chosen.divisor(d)
        c = self.second.shape[1] // d
        if m > 1 and c < d:  # values before attention: fewer columns
            values = (x @ self.second.view(N, d, c).transpose(0, 1).reshape(d, N * c)).view(b, s, N, c)
            return hidden.flatten(2) @ values.transpose(1, 2).reshape(b, N * s, c)
        attended = hidden.reshape(b, m * N, s) @ x
        return attended.reshape(b, m, N * d) @ self.second.view(N * d, c)


def attend(queries: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """Q W Xᵀ for every row of ``weights`` (N, d²), (b, m, N, s), for queries (b, m, d) and tokens (b, s, d)."""
    (b, m, d), N = queries.shape, weights.shape[0]
    projected = queries @ weights.view(N, d, d).transpose(0, 1).reshape(d, N * d)
    return (projected.view(b, m * N, d) @ x.transpose(1, 2)).view(b, m, N, x.shape[1])
