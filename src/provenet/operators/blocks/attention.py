"""Self-attention, linear and gated (AT Thm 3.1, App. C.1; BM Lemma 3.9, B.3).

Queries Q and second moments M (`MomentOperator`) by activation and readout:

    linear         Q = X_i or its mean token    M = Σ_r x_r x_rᵀ                                  one row a sample
    gated, tokens  Q = x_t                      M_k = Σ_r D_k[t, r] x_r x_rᵀ                      one row a token
    gated, mean    none: M holds it             M_k = Σ_r y_kr ⊗ x_r x_rᵀ, y_kr = mean_t D_k[t, r] x_t

Linear heads go through the tokens' Gram matrix XᵀX; for gated ones see `attention_gated`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from torch import Tensor

from provenet.operators.bases.moments import MomentOperator
from provenet.operators.blocks.attention_gated import GatedMeanAttention, GatedTokenAttention
from provenet.variable import Factors


def attention_operator(
    X: Tensor,
    patterns: Tensor | None,
    outputs: int,
    readout: str,
    divisor: float = 1.0,
    mask: Tensor | None = None,
    scale: float = 1.0,
) -> MomentOperator:
    """The operator of X (n, s, d), zero where ``mask`` (n, s) is false, with patterns (P, n·s²), or None: linear.

    X W₁ Xᵀ is divided by ``divisor``.
    """
    if patterns is None:
        return LinearAttention(X, None, outputs, readout, divisor, mask, scale)
    n, s, _ = X.shape
    kind = GatedMeanAttention if readout == "mean" else GatedTokenAttention
    return kind(X, patterns.view(-1, n, s, s), outputs, readout, divisor, mask, scale)


class LinearAttention(MomentOperator):
    """out_i = Q_i Σ_j W₁ⱼ (X_iᵀX_i) W₂ⱼ, Q_i = X_i or its mean token (AT eq. 13)."""

    def _size(self) -> None:
        self.width, self.row_numbers = self.d, self.pairs

    def queries(self, rows: slice) -> Tensor:
        return self._means[rows] if self.mean else self.batch(rows) / self.divisor

    @cached_property
    def _means(self) -> Tensor:
        """The mean tokens, (n, 1, d)."""
        sums = self._collected(lambda rows: self.batch(rows).sum(1, keepdim=True), 1, 1, self.d)
        return sums * self.share(slice(0, self.n))[:, None, None]

    def stack_numbers(self) -> int:
        return self._moment_numbers + (self.s + self.d) * self.d + self.width * self.outputs  # tokens, their Gram

    def moments(self, rows: slice) -> Callable[[slice], Tensor]:
        return lambda _: self.gram(rows)[:, self.high, self.low]

    def gram(self, rows: slice) -> Tensor:
        """XᵀX, (b, d, d)."""
        kept = self.made("_gram")
        return self._made_gram(rows) if kept is None else kept[rows]

    def _made_gram(self, rows: slice) -> Tensor:
        x = self.batch(rows)
        return x.transpose(1, 2) @ x

    @cached_property
    def _gram(self) -> Tensor | None:
        """Of all samples, where it fits and is no longer than they are."""
        d = self.d
        return self._collected(self._made_gram, 1, d, d) if d <= 2 * self.s and self.fits(d * d) else None

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        """From the side with fewer vectors: the queries, or the columns of W₂."""
        N, d, c = factors.n_neurons, self.d, self.outputs
        queries = self.queries(rows)
        b, m, _ = queries.shape
        if m <= c:
            keys = queries.reshape(b * m, d) @ factors.left.view(N, d, d).transpose(0, 1).reshape(d, N * d)
            values = self._times_gram(rows, keys.view(b, m * N, d))
            return (values.view(b * m, N * d) @ factors.right.view(N * d, c)).view(b, *self.output_shape[1:])
        columns = factors.right.view(N, d, c).permute(2, 0, 1).reshape(c * N, d)
        values = self._times_gram(rows, columns.expand(b, c * N, d)).view(b * c, N * d)
        mixed = values @ factors.left.view(N, d, d).transpose(1, 2).reshape(N * d, d)
        return queries @ mixed.view(b, c, d).transpose(1, 2)

    def _times_gram(self, rows: slice, vectors: Tensor) -> Tensor:
        """vectors · XᵀX, (b, k, d), through the Gram matrix or the tokens, whichever is less work."""
        k, s, d = vectors.shape[1], self.s, self.d
        if self._gram is not None or (k + s) * d <= 2 * k * s:
            return vectors @ self.gram(rows)
        x = self.batch(rows)
        return (vectors @ x.transpose(1, 2)) @ x

    def neuron_numbers(self) -> int:
        return 2 * self.d * self._vectors

    @property
    def neuron_work(self) -> float:
        """Through W₁, the Gram matrix or the tokens, and W₂."""
        gram = min(self.d, 2 * self.s)
        return float(self.n) * self._vectors * self.d * (self.d + gram + self.outputs)

    @property
    def _vectors(self) -> int:
        """Of the side with fewer, a sample."""
        return 1 if self.mean else min(self.s, self.outputs)
