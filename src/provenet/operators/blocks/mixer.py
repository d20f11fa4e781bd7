"""The MLP-Mixer: h = W₁X, output (D ∘ W₁X) W₂ (AT eq. 17, Thm 4.1, C.2).

u is W₁ (s, s) and v is W₂ (d, c), so Z_k is read as (t, τ, f, c): what token τ's feature f adds to token t's output c.

    A(Z)_i[t, c] = Σ_k Σ_f D_k[i, t, f] Σ_τ X_i[τ, f] Z_k[t, τ, f, c]

Of the sums over gates, tokens and features one long one goes into a matmul; Xᵀ ⊗ I is never built.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from provenet import deadline
from provenet.operators.bases.base import Operator
from provenet.operators.bases.batched import BatchedOperator
from provenet.operators.bases.features import FeatureOperator, narrowed
from provenet.operators.bases.pooled import PooledOperator
from provenet.variable import Factors, Stack

_FEATURES = 8  # features gated at a time: a cache line of gates is read for all of them at once


class MixerColumnsOperator(PooledOperator):
    """Linear, readout ``mean``: A(Z)_i = Σ_f X_i[:, f]ᵀ Z[:, (f, ·)] / √s, with Z (s, dc) the sum over W₁'s rows."""

    def __init__(self, X: Tensor, outputs: int, scale: float = 1.0):
        super().__init__(X, None, scale * X.shape[1] ** 0.5)
        self.p, self.cells = X.shape[1:]
        self.outputs, self.q = outputs, self.cells * outputs
        self.output_shape = (self.n, outputs)

    @cached_property
    def kept(self) -> FeatureOperator | None:
        """The inputs themselves, where they are kept."""
        return super().kept if self._inputs is None else self._on(self._inputs.unsqueeze(1))

    def prepare(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)

    def features(self, rows: slice) -> Tensor:
        return self.batch(rows).unsqueeze(1)

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        return (self.batch(rows) @ factors.left.T).transpose(1, 2)

    def neuron_numbers(self) -> int:
        return self.cells

    def sample_sizes(self) -> Tensor:
        return self.input_sizes()

    @property
    def depth(self) -> int:
        return 10


class MixerOperator(BatchedOperator):
    """What the two readouts share: the hidden layer of neurons.  patterns (P, n, s·d)."""

    has_kernel = True
    by_token: bool  # whether all tokens are read out, not their mean

    def __init__(self, X: Tensor, patterns: Tensor | None, outputs: int, scale: float = 1.0):
        super().__init__(X, patterns, scale)
        self.s, self.d = X.shape[1:]
        self.outputs = outputs
        self.p, self.q = self.s * self.s, self.d * outputs
        self.output_shape = (self.n, self.s, outputs) if self.by_token else (self.n, outputs)

    def neuron_numbers(self) -> int:
        return 2 * self.s * self.d

    @property
    def depth(self) -> int:
        return 2 * self.s + 20

    def gates(self, rows: slice) -> Tensor:
        """(P, b, s, d) bool."""
        assert self.patterns is not None
        return self.patterns[:, rows].unflatten(2, (self.s, self.d))

    def _read(self, stack: Stack) -> Tensor:
        """Z as (P, t, τ, f, c)."""
        return stack.view(self.n_gates, self.s, self.s, self.d, self.outputs)

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        return self.read(self._hidden(rows, factors)[0], self._second(factors))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        N = factors.n_neurons
        if N == 0:
            return left, right
        by_row, by_feature = left.view(N * self.s, self.s), right.view(N, self.d, self.outputs)
        for rows in self.batches(self.numbers(factors)):
            hidden, x, opened = self._hidden(rows, factors)
            by_feature += self.read_back(hidden, residual[rows])
            back = self.spread(residual[rows], self._second(factors), hidden)
            if opened is not None:
                back.mul_(opened)
            by_row.addmm_(back.view(N * self.s, -1), x.T)
        return left, right

    def _second(self, factors: Factors) -> Tensor:
        return factors.right.view(-1, self.d, self.outputs)

    def _hidden(self, rows: slice, factors: Factors) -> tuple[Tensor, Tensor, Tensor | None]:
        """D ∘ W₁X of every neuron (N, s, b, d), X as (s, b·d), and D."""
        x = self.batch(rows).transpose(0, 1).reshape(self.s, -1)
        hidden = (factors.left.view(-1, self.s) @ x).view(factors.n_neurons, self.s, -1, self.d)
        if self.patterns is None:
            return hidden, x, None
        opened = self.gates(rows).index_select(0, factors.gate).transpose(1, 2)
        return hidden.mul_(opened), x, opened

    @abstractmethod
    def read(self, hidden: Tensor, second: Tensor) -> Tensor:
        """The outputs of hidden values (N, s, b, d) and second layers (N, d, c)."""

    @abstractmethod
    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        """The transpose of `read` in the second layers, (N, d, c)."""

    @abstractmethod
    def spread(self, residual: Tensor, second: Tensor, out: Tensor) -> Tensor:
        """The transpose of `read` in the hidden values, written over ``out`` (N, s, b, d)."""


class MixerMeanOperator(MixerOperator):
    """Readout ``mean``, gated.  Gates and W₁'s rows are summed in one matmul a feature."""

    by_token = False
    narrows = True

    def stack_numbers(self) -> int:
        return self.n_gates * self.s * _FEATURES // 4

    def sample_sizes(self) -> Tensor:
        return self.input_sizes() * self.s**-0.5

    @property
    def _groups(self) -> list[slice]:
        """Features that are gone through together."""
        return [slice(start, min(start + _FEATURES, self.d)) for start in range(0, self.d, _FEATURES)]

    def _part(self, rows: slice, some: slice) -> tuple[Tensor, Tensor]:
        """Of some features, their gates over s (F, b, P·s) and X's columns (F, b, s)."""
        gates = self.gates(rows)[..., some].permute(3, 1, 0, 2).to(self.dtype, memory_format=torch.contiguous_format)
        return gates.flatten(2).div_(self.s), self.batch(rows)[..., some].permute(2, 0, 1)

    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        out = self.space.zeros(rows.stop - rows.start, self.outputs)
        for some in self._groups:
            gates, x = self._part(rows, some)
            blocks = self._read(stack)[..., some, :].permute(3, 0, 1, 2, 4).reshape(len(x), -1, self.s * self.outputs)
            mixed = torch.bmm(gates, blocks).unflatten(2, (self.s, self.outputs))
            out += torch.matmul(x.unsqueeze(2), mixed).squeeze(2).sum(0)
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        stack = self.new_stack()
        every = [(rows, some) for rows in self.batches(self.stack_numbers()) for some in self._groups]
        for rows, some in deadline.paced(every):
            gates, x = self._part(rows, some)
            outer = (x.unsqueeze(3) * residual[rows].unsqueeze(1)).flatten(2)  # (F, b, s·c)
            slope = torch.bmm(gates.transpose(1, 2), outer)
            parts = slope.view(len(x), self.n_gates, self.s, self.s, self.outputs)
            self._read(stack)[..., some, :] += parts.permute(1, 2, 3, 0, 4)
        return stack

    def _fill_first(self, right: Tensor, gate: Tensor, columns: Tensor) -> None:
        """Entry (t, τ): Σ_f D[t, f] X[τ, f] v[f, c] / s."""
        second = right.view(-1, self.d, self.outputs)
        for rows in self.batches(self.p * self.outputs * len(right)) if len(right) else ():
            opened = self.gates(rows).index_select(0, gate).to(self.dtype)  # (N, b, s, d)
            made = torch.einsum("jbtf,brf,jfc->jtrbc", opened, self.batch(rows), second)
            columns[:, :, rows] = made.flatten(1, 2).div_(self.s)

    def _fill_second(self, left: Tensor, gate: Tensor, columns: Tensor) -> None:
        """Entry (f, c): the mean over tokens of hidden feature f, in output c."""
        into = columns.view(len(left), self.d, self.outputs, self.n, self.outputs)
        for rows in self.batches(self.neuron_numbers() * len(left)) if len(left) else ():
            mean = self._hidden(rows, Factors(left, left, gate))[0].mean(1).transpose(1, 2)  # (N, d, b)
            for c in range(self.outputs):
                into[:, :, c, rows, c] = mean

    def kernel(self) -> Tensor:
        """K_ij = Σ_f (X_i[:, f]·X_j[:, f]) Σ_kt D_k[i, t, f] D_k[j, t, f] / s²."""
        total = self.space.zeros(self.n, self.n)
        everyone = slice(0, self.n)
        x = self.batch(everyone)
        for f in range(self.d):
            gates = self.gates(everyone)[..., f].transpose(0, 1).flatten(1).to(torch.float32)  # counts are exact
            total += (x[..., f] @ x[..., f].T).mul_((gates @ gates.T).to(self.dtype))
        return total.div_(self.s**2)

    def read(self, hidden: Tensor, second: Tensor) -> Tensor:
        return self._pooled(hidden).flatten(1) @ second.flatten(0, 1)

    def _pooled(self, hidden: Tensor) -> Tensor:
        """(b, N, d)."""
        return hidden.sum(1).div_(self.s).transpose(0, 1)

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        return narrowed(self, gates, basis, lambda rows, few: self._pooled(self._hidden(rows, few)[0]), self.outputs)

    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        return (self._pooled(hidden).flatten(1).T @ residual).view(-1, self.d, self.outputs)

    def spread(self, residual: Tensor, second: Tensor, out: Tensor) -> Tensor:
        back = torch.matmul(residual, second.transpose(1, 2)).div_(self.s)  # (N, b, d)
        return out.copy_(back.unsqueeze(1))


class MixerTokensOperator(MixerOperator):
    """Readout ``tokens``: every token has weights of its own and is gone through by itself; if linear, all at once."""

    by_token = True

    def stack_numbers(self) -> int:
        return self.d * (self.n_gates * self.outputs + self.s)

    def sample_sizes(self) -> Tensor:
        return self.input_sizes() * self.s**0.5

    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        x = self.batch(rows)
        if self.patterns is None:
            weights = self._read(stack)[0].permute(1, 2, 0, 3).reshape(self.s * self.d, -1)
            return (x.flatten(1) @ weights).view(-1, self.s, self.outputs)
        columns, tokens = x.permute(2, 0, 1), []
        for t in range(self.s):
            blocks = self._read(stack)[:, t].permute(2, 1, 0, 3).reshape(self.d, self.s, -1)
            mixed = torch.bmm(columns, blocks).unflatten(2, (self.n_gates, self.outputs))  # (d, b, P, c)
            tokens.append(torch.matmul(self._gates(rows, t).unsqueeze(2), mixed).squeeze(2).sum(0))
        return torch.stack(tokens, 1)

    def _gates(self, rows: slice, t: int) -> Tensor:
        """Token t's gates, (d, b, P)."""
        return self.gates(rows)[:, :, t].permute(2, 1, 0).to(self.dtype, memory_format=torch.contiguous_format)

    def adjoint(self, residual: Tensor) -> Stack:
        stack = self.new_stack()
        parts = self._read(stack)
        for rows in deadline.paced(self.batches(self.stack_numbers())):
            x = self.batch(rows)
            if self.patterns is None:
                slope = x.flatten(1).T @ residual[rows].flatten(1)
                parts[0] += slope.view(self.s, self.d, self.s, self.outputs).permute(2, 0, 1, 3)
                continue
            columns = x.permute(2, 1, 0)  # (d, s, b)
            for t in range(self.s):
                gated = self._gates(rows, t).unsqueeze(3) * residual[rows, t].unsqueeze(1)  # (d, b, P, c)
                slope = torch.bmm(columns, gated.flatten(2)).unflatten(2, (self.n_gates, self.outputs))
                parts[:, t] += slope.permute(2, 1, 0, 3)
        return stack

    def kernel(self) -> Tensor:
        """K[(i, t), (j, t)] = Σ_kf D_k[i, t, f] D_k[j, t, f] X_i[:, f]·X_j[:, f]; tokens t ≠ t' share no weight."""
        total = self.space.zeros(self.n, self.s, self.n, self.s)
        everyone = slice(0, self.n)
        x = self.batch(everyone)
        for t in range(self.s):
            if self.patterns is None:
                total[:, t, :, t] = x.flatten(1) @ x.flatten(1).T
                continue
            for f, gates in enumerate(self._gates(everyone, t)):
                total[:, t, :, t] += (x[..., f] @ x[..., f].T).mul_(gates @ gates.T)
        return total.view(self.kernel_rows, self.kernel_rows)

    def read(self, hidden: Tensor, second: Tensor) -> Tensor:
        out = torch.bmm(hidden.flatten(1, 2), second).sum(0)  # (s·b, c)
        return out.view(self.s, -1, self.outputs).transpose(0, 1)

    def read_back(self, hidden: Tensor, residual: Tensor) -> Tensor:
        flat = residual.transpose(0, 1).flatten(0, 1)  # (s·b, c)
        return torch.matmul(hidden.flatten(1, 2).transpose(1, 2), flat)

    def spread(self, residual: Tensor, second: Tensor, out: Tensor) -> Tensor:
        flat = residual.transpose(0, 1).flatten(0, 1)
        return torch.matmul(flat, second.transpose(1, 2)).view(out.shape)
