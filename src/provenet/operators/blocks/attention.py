"""Self-attention, linear and gated (AT Thm 3.1, App. C.1; BM Lemma 3.9, B.3).

Queries Q and second moments M (`MomentOperator`) by activation and readout:

    linear         Q = X_i or its mean token    M = Σ_r x_r x_rᵀ                                  one row a sample
    gated, tokens  Q = x_t                      M_k = Σ_r D_k[t, r] x_r x_rᵀ                      one row a token
    gated, mean    none: M holds it             M_k = Σ_r y_kr ⊗ x_r x_rᵀ, y_kr = mean_t D_k[t, r] x_t

Heads go through their s × s attention matrices, or, if linear, through the tokens' Gram matrix XᵀX.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.operators.bases.features import narrowed
from provenet.operators.bases.moments import MomentOperator
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


class GatedAttention(MomentOperator):
    """Heads through their s × s attention matrices; through the stack where its moments are kept and smaller."""

    def forward_factors(self, factors: Factors) -> Tensor:
        if self._stack_pays(factors):
            return self.forward(factors.stack(self.n_gates))
        return super().forward_factors(factors)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        if self._stack_pays(factors):
            slope = self.adjoint(residual)[factors.gate]
            left, right = slope @ factors.right.unsqueeze(2), factors.left.unsqueeze(1) @ slope
            return left.squeeze(2), right.squeeze(1)
        return super().adjoint_factors(residual, factors)

    def _stack_pays(self, factors: Factors) -> bool:
        N, slopes = factors.n_neurons, factors.n_neurons * self.p * self.q
        through_heads = N * self.n * self.s * self.d * (self.s + self.d)
        through_stack = self.n * self._moment_numbers * self.width * self.outputs + 2 * slopes
        return through_stack <= through_heads and slopes <= self.n * self._moment_numbers and self.kept is not None

    def attention(self, rows: slice, factors: Factors) -> Tensor:
        """D ∘ X W₁ Xᵀ of every head, (b, s, N, s)."""
        x, N, d = self.batch(rows), factors.n_neurons, self.d
        b, s, _ = x.shape
        queries = x.view(b * s, d) @ factors.left.view(N, d, d).transpose(0, 1).reshape(d, N * d)
        scores = torch.bmm(queries.view(b, s * N, d), x.transpose(1, 2)).view(b, s, N, s)
        opened = self.opened(rows, factors.gate)
        assert opened is not None
        # as numbers once, for this product and its derivative, and laid out like the scores
        weight = opened.permute(1, 2, 0, 3).to(self.dtype, memory_format=torch.contiguous_format)
        return scores.mul_(weight)

    def weights(self, rows: slice, gates: slice) -> Tensor:
        """D of some gates as numbers, (gates, b, s, s)."""
        assert self.patterns is not None
        return self.patterns[gates, rows].to(self.dtype)

    def neuron_numbers(self) -> int:
        return self.s * (self.d + 2 * self.s)


class GatedTokenAttention(GatedAttention):
    """Readout ``tokens``: out_t = Σ_k x_t · (M_kt S_k), M_kt = Σ_r D_k[t, r] x_r x_rᵀ."""

    def _size(self) -> None:
        self.width, self.row_numbers = self.d, self.pairs

    @property
    def rows_each(self) -> int:
        return self.s

    def queries(self, rows: slice) -> Tensor:
        return (self.batch(rows) / self.divisor).view(-1, 1, self.d)

    def moments(self, rows: slice) -> Callable[[slice], Tensor]:
        x = self.batch(rows)
        b, s, _ = x.shape
        products = self.products(x)

        def of(gates: slice) -> Tensor:
            weight = self.weights(rows, gates).permute(1, 2, 0, 3).reshape(b, -1, s)
            return (weight @ products).view(b * s, -1)

        return of

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        x, N, d, c = self.batch(rows), factors.n_neurons, self.d, self.outputs
        b, s, _ = x.shape
        attention = self.attention(rows, factors)
        second = factors.right.view(N, d, c) / self.divisor
        if c < d:  # values before attention: fewer columns
            values = (x @ second.transpose(0, 1).reshape(d, N * c)).view(b, s, N, c)
            return attention.view(b, s, N * s) @ values.transpose(1, 2).reshape(b, N * s, c)
        return (attention.view(b, s * N, s) @ x).view(b, s, N * d) @ second.view(N * d, c)


class GatedMeanAttention(GatedAttention):
    """Readout ``mean``: out = Σ_k M_k S_k, M_k = Σ_r y_kr ⊗ x_r x_rᵀ with y_kr = mean_t D_k[t, r] x_t."""

    narrows = True

    def _size(self) -> None:
        self.width, self.row_numbers = 1, self.pairs * self.d

    def queries(self, rows: slice) -> None:
        return None

    def moments(self, rows: slice) -> Callable[[slice], Tensor]:
        x = self.batch(rows)
        shared, products = x * self.share(rows)[:, None, None], self.products(x)

        def of(gates: slice) -> Tensor:
            opened = self.weights(rows, gates).transpose(2, 3) @ shared  # y, (gates, b, s, d)
            return (opened.permute(1, 0, 3, 2) @ products.unsqueeze(1)).flatten(1)

        return of

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        return self._attended(rows, factors).flatten(1) @ factors.right.reshape(-1, self.outputs)

    def _attended(self, rows: slice, factors: Factors) -> Tensor:
        """What each head hands to W₂, (b, N, d)."""
        hidden = self.attention(rows, factors).sum(1) * self.share(rows)[:, None, None]  # (b, N, s)
        return torch.bmm(hidden, self.batch(rows))

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        with torch.no_grad():
            return narrowed(self, gates, basis, self._attended, self.outputs)
