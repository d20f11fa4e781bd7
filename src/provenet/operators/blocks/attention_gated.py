"""Gated self-attention (AT eq. 12, BM eq. 8).

Heads whose every token is read out go through their s × s attention matrices.  Of those that are read out by the mean
the mean is taken first, over queries: y_kr = mean_t D_k[t, r] x_t.  Then a head (W₁, W₂) behind gate k is

    h_r = y_krᵀ W₁ x_r,    out = Σ_r h_r x_rᵀ W₂

so hidden values of all samples are one product of rows (n·s, d) with first layers side by side (d, N·d), and so is the
slope by first layers, Σ_r (x_rᵀ W₂ R) y_kr x_rᵀ.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from provenet import batches
from provenet.operators.bases.base import Backward, Operator
from provenet.operators.bases.features import narrowed
from provenet.operators.bases.moments import MomentOperator
from provenet.variable import ByGate, Factors

_LIMIT_PARTS = 8  # of a limit of memory, one part in so many is for hidden values


class GatedAttention(MomentOperator):
    """Neurons through the stack where its moments are kept and smaller."""

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

    def weights(self, rows: slice, gates: slice) -> Tensor:
        """D of some gates as numbers, (gates, b, s, s)."""
        assert self.patterns is not None
        return self.patterns[gates, rows].to(self.dtype)


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

    def neuron_numbers(self) -> int:
        return self.s * (self.d + 2 * self.s)

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

    def mean_queries(self, rows: slice, gates: slice) -> Tensor:
        """y behind some gates, (gates, b, s, d)."""
        shared = self.batch(rows) * self.share(rows)[:, None, None]
        return self.weights(rows, gates).transpose(2, 3) @ shared

    def moments(self, rows: slice) -> Callable[[slice], Tensor]:
        products = self.products(self.batch(rows))

        def of(gates: slice) -> Tensor:
            opened = self.mean_queries(rows, gates)
            return (opened.permute(1, 0, 3, 2) @ products.unsqueeze(1)).flatten(1)

        return of

    # neurons

    def hidden(self, rows: slice, factors: Factors) -> Tensor:
        """h of every neuron, (b, s, N)."""
        x, d = self.batch(rows), self.d
        tokens = x.reshape(-1, 1, d)
        hidden = x.new_empty(len(tokens), factors.n_neurons)
        for k, mine in ByGate.of(factors.gate).members:
            first = factors.left[mine].view(-1, d, d).transpose(0, 1).reshape(d, -1)
            mixed = self.mean_queries(rows, slice(k, k + 1)).view(-1, d) @ first
            hidden[:, mine] = mixed.view(len(tokens), -1, d).mul_(tokens).sum(2)
        return hidden.view(*x.shape[:2], -1)

    def attended(self, rows: slice, factors: Factors, hidden: Tensor | None = None) -> Tensor:
        """What each neuron hands to W₂, Σ_r h_r x_r, (b, N, d), of hidden values that are there, or made anew."""
        hidden = self.hidden(rows, factors) if hidden is None else hidden
        return hidden.transpose(1, 2) @ self.batch(rows)

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        return self._read_out(self.attended(rows, factors), factors)

    def _read_out(self, attended: Tensor, factors: Factors) -> Tensor:
        return attended.flatten(1) @ factors.right.reshape(-1, self.outputs)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        if self._stack_pays(factors):
            return super().adjoint_factors(residual, factors)
        return self._back(residual, factors, None)

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        """Hidden values are kept where they fit."""
        numbers = self.n * self.s * factors.n_neurons
        fits = 0 < numbers * self.dtype.itemsize <= min(batches.KEPT, batches.share(_LIMIT_PARTS))
        if not fits or self._stack_pays(factors):
            return super().both_ways(factors)
        hidden = self.space.empty(self.n, self.s, factors.n_neurons)
        prediction = self.space.empty(*self.output_shape)
        with torch.no_grad():
            for rows in self.batches(self.numbers(factors)):
                hidden[rows] = self.hidden(rows, factors)
                prediction[rows] = self._read_out(self.attended(rows, factors, hidden[rows]), factors)
        return prediction, lambda residual: self._back(residual, factors, hidden)

    @torch.no_grad()
    def _back(self, residual: Tensor, factors: Factors, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """`adjoint_factors`, of hidden values (n, s, N) that are there, or made anew."""
        d, groups = self.d, ByGate.of(factors.gate).members
        second = factors.right.reshape(-1, self.outputs)
        right, slopes = torch.zeros_like(second), [factors.left.new_zeros(d, len(mine) * d) for _, mine in groups]
        for rows in self.batches(self.numbers(factors)) if groups else ():
            x, part = self.batch(rows), residual[rows]
            attended = self.attended(rows, factors, None if hidden is None else hidden[rows])
            right.addmm_(attended.flatten(1).T, part)
            pull = x @ (part @ second.T).view(len(x), -1, d).transpose(1, 2)  # by hidden values, (b, s, N)
            for (k, mine), slope in zip(groups, slopes, strict=True):
                pulled = pull[..., mine].unsqueeze(3) * x.unsqueeze(2)
                slope.addmm_(self.mean_queries(rows, slice(k, k + 1)).view(-1, d).T, pulled.view(-1, slope.shape[1]))
        left = torch.empty_like(factors.left)
        for (_, mine), slope in zip(groups, slopes, strict=True):
            left[mine] = slope.view(d, -1, d).transpose(0, 1).reshape(-1, d * d)
        return left, right.view(factors.right.shape)

    @torch.no_grad()
    def alone(self, factors: Factors, rows: slice) -> Tensor:
        second = factors.right.view(-1, self.d, self.outputs)
        return torch.bmm(self.attended(rows, factors).transpose(0, 1), second)  # (N, b, d) by (N, d, c)

    def neuron_numbers(self) -> int:
        return self.s * (self.d + 2)

    @property
    def neuron_work(self) -> float:
        """Through W₁, token by token, and W₂."""
        by_rows = float(self.n) * self.d * (self.s * (self.d + 2) + self.outputs)
        return max(super().neuron_work, by_rows)

    @property
    def product_terms(self) -> int:
        """Outputs, features, and all tokens of a batch."""
        batch = batches.count(self.neuron_numbers(), batches.BATCH, self.dtype.itemsize)
        return self.outputs + self.d + min(self.n, batch) * self.s

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        with torch.no_grad():
            return narrowed(self, gates, basis, self.attended, self.outputs)
