"""Blocks with one output a sample: their gated, pooled features are a data matrix.

Whatever the block, with the readout ``mean`` or a pooling P_a

    A(Z)_i = Σ_k Σ_a F_k[i, a, :] Z_k[:, (a, ·)],     F_k[i, a, :] = Σ_r P[a, r] D_k[i, r] Φ_i[r, :]

so tokens or positions are summed once, and all gates and outputs share them.  Where F fits into memory it is kept, and
a step costs what an MLP's does; else it is made batch by batch, and neurons go through their hidden layer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import memory
from provenet.operators.bases import lanes
from provenet.operators.bases.base import Operator
from provenet.operators.bases.batched import BatchedOperator
from provenet.variable import Factors, Stack

_KEEP_NUMBERS = 2**28  # features up to two GiB in float64 are kept,
_SMALL_NUMBERS = 2**26  # those above half a GiB only where they are a small share of the free memory
_KEEP_SHARE = 0.15
_ROWS = 2**16  # of features at a time, where they pass through a factorisation


def narrowed(
    operator: BatchedOperator, gates: Tensor, basis: Tensor, pooled: Callable[[slice, Factors], Tensor], outputs: int
) -> FeatureOperator:
    """The pooled hidden values (b, N, a) of neurons with these first layers, as features (n, K, a, r)."""
    K, r, _ = basis.shape
    left = basis.flatten(0, 1)
    neurons = Factors(left, left.new_zeros(len(left), operator.q), gates.repeat_interleave(r))
    features = torch.empty(operator.n, K, operator.q // outputs, r, dtype=operator.dtype)
    for rows in operator.batches(operator._numbers(neurons)):
        features[rows] = pooled(rows, neurons).unflatten(1, (K, r)).transpose(2, 3)
    return FeatureOperator(features, outputs)


class PooledOperator(BatchedOperator):
    """``cells``: a, how many pooled values a neuron has.  ``cells_first``: v is (a, c), else (c, a), row-major."""

    has_kernel = True
    narrows = True
    cells: int = 1
    cells_first: bool = True
    outputs: int
    _features: Tensor | None = None

    @abstractmethod
    def features(self, rows: slice) -> Tensor:
        """F of some samples, (b, P, a, p)."""

    @abstractmethod
    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        """Every neuron's pooled hidden values Σ_r P[a, r] D[r] Φ[r] u, (b, N, a), without the features."""

    @property
    def kept(self) -> Tensor | None:
        """The features of all samples (n, P, a, p), where they fit."""
        if self._features is None and self._worth_keeping:
            numbers = max(self._feature_numbers, self._source[0].numel())  # a batch's input counts as well
            features = torch.empty(self.n, self.n_gates, self.cells, self.p, dtype=self.dtype)
            for rows in self.batches(numbers):
                features[rows] = self.features(rows)
            self._features = features
        return self._features

    @property
    def _worth_keeping(self) -> bool:
        numbers = self.n * self._feature_numbers
        if numbers > _KEEP_NUMBERS:
            return False
        return numbers <= _SMALL_NUMBERS or memory.fits(numbers * self.dtype.itemsize, _KEEP_SHARE)

    @property
    def held_bytes(self) -> int:
        return 0 if self._features is None else self._features.nbytes

    @property
    def _feature_numbers(self) -> int:
        return self.n_gates * self.cells * self.p

    def stack_numbers(self) -> int:
        return self._feature_numbers + self.outputs

    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        kept = self.kept
        features = self.features(rows) if kept is None else kept[rows]
        P, p, _ = self.stack_shape
        by_cell = self._by_cell(stack.reshape(P * p, self.q)).view(P, p, self.cells, self.outputs)
        return features.flatten(1) @ by_cell.transpose(1, 2).reshape(-1, self.outputs)

    def adjoint(self, residual: Tensor) -> Stack:
        kept = self.kept
        if kept is None:
            return super().adjoint(residual)
        P, p, _ = self.stack_shape
        slope = residual.T @ kept.flatten(1)  # row by row of the features; its transpose reads them three times slower
        cells, columns = (2, 0) if self.cells_first else (0, 2)
        return slope.view(self.outputs, P, self.cells, p).permute(1, 3, cells, columns).reshape(self.stack_shape)

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        return self.pooled(rows, factors).flatten(1) @ self._by_cell(factors.right).reshape(-1, self.outputs)

    def forward_factors(self, factors: Factors) -> Tensor:
        kept = self.kept
        if kept is None or factors.n_neurons == 0:
            return super().forward_factors(factors)
        return lanes.forward(kept, factors.gate, factors.left, self._by_cell(factors.right))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        kept = self.kept
        if kept is None or factors.n_neurons == 0:
            return super().adjoint_factors(residual, factors)
        left, right = lanes.adjoint(kept, factors.gate, factors.left, self._by_cell(factors.right), residual)
        return left, (right if self.cells_first else right.transpose(1, 2)).reshape(-1, self.q)

    def jacobian(self, factors: Factors) -> Tensor:
        kept = self.kept
        if kept is None:
            return super().jacobian(factors)
        features = kept[:, factors.gate]  # (n, N, a, p)
        columns = torch.zeros(factors.n_neurons, self.p + self.q, self.n, self.outputs, dtype=self.dtype)
        columns[:, : self.p] = torch.einsum("njap,jac->jpnc", features, self._by_cell(factors.right))
        self._write_columns(columns[:, self.p :], torch.einsum("njap,jp->jan", features, factors.left))
        return columns

    def columns(self, left: Tensor, gate: Tensor) -> Tensor:
        kept = self.kept
        if kept is None or len(left) == 0:
            return super().columns(left, gate)
        columns = torch.zeros(len(left), self.q, self.n, self.outputs, dtype=self.dtype)
        hidden = torch.stack([kept[:, k] @ u for k, u in zip(gate.tolist(), left, strict=True)])  # (N, n, a)
        self._write_columns(columns, hidden.mT)
        return columns

    def _write_columns(self, columns: Tensor, hidden: Tensor) -> None:
        """What unit second layers make of hidden values (N, a, n), into columns (N, q, n, c) of zeros."""
        shape = (self.cells, self.outputs) if self.cells_first else (self.outputs, self.cells)
        second = columns.unflatten(1, shape)  # (N, a, c, n, c) or (N, c, a, n, c)
        by_cell = second if self.cells_first else second.transpose(1, 2)
        by_cell.diagonal(dim1=2, dim2=4).copy_(hidden[..., None])

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        kept = self.kept
        if kept is None:
            few = narrowed(self, gates, basis, self.pooled, self.outputs).kept
        else:
            few = torch.empty(self.n, len(gates), self.cells, basis.shape[1], dtype=self.dtype)
            for rows in self.batches(len(gates) * self.cells * self.p):
                few[rows] = kept[rows].index_select(1, gates) @ basis.mT
        return FeatureOperator(few, self.outputs, self.cells_first)

    def _by_cell(self, right: Tensor) -> Tensor:
        """Second layers (N, q) as (N, a, c)."""
        if self.cells_first:
            return right.view(-1, self.cells, self.outputs)
        return right.view(-1, self.outputs, self.cells).transpose(1, 2)

    def kernel(self) -> Tensor:
        kept = self.kept
        if kept is not None:
            flat = kept.flatten(1)
            return flat @ flat.T
        total = torch.zeros(self.n, self.n, dtype=self.dtype)
        group = max(1, _KEEP_NUMBERS // (self.n * self.cells * self.p))
        for gates in torch.arange(self.n_gates).split(group):
            some = self.restrict(gates)
            flat = torch.cat([some.features(rows) for rows in self.batches(some._feature_numbers)]).flatten(1)
            total.addmm_(flat, flat.T)
        return total

    def restrict(self, gates: Tensor) -> Self:
        other = super().restrict(gates)
        other.__dict__.pop("_reduced", None)
        other.__dict__.pop("_worth_keeping", None)
        if self.patterns is not None and self._features is not None:
            other._features = self._features[:, gates]
        return other

    def to(self, dtype: torch.dtype) -> Self:
        other = super().to(dtype)
        if other is not self:
            other.__dict__.pop("_reduced", None)
            other.__dict__.pop("_worth_keeping", None)
            other._features = None if self._features is None else self._features.to(dtype)
        return other

    def reduced(self) -> tuple[Operator, Tensor] | None:
        return self._reduced

    @cached_property
    def _reduced(self) -> tuple[Operator, Tensor] | None:
        kept = self.kept
        if kept is None:
            return None
        rows = kept.reshape(-1, self.p)
        if rows.shape[0] > 4 * self.p:  # its triangle has the same singular values and right singular vectors
            triangle = rows[:0]
            for some in rows.split(max(_ROWS, 4 * self.p)):
                triangle = torch.linalg.qr(torch.cat([triangle, some]), mode="r").R
            rows = triangle
        _, sigma, Vh = torch.linalg.svd(rows, full_matrices=False)
        rank = max(int((sigma > sigma.max() * max(kept.shape) * torch.finfo(self.dtype).eps).sum()), 1)
        if rank > 0.9 * self.p:
            return None
        return FeatureOperator(kept @ Vh[:rank].T, self.outputs, self.cells_first), Vh[:rank].T


class FeatureOperator(PooledOperator):
    """Features (n, P, a, p) as they are; where P = 1, the operator of a linear block."""

    def __init__(self, features: Tensor, outputs: int, cells_first: bool = True):
        self.dtype = features.dtype
        self.n, self.n_gates, self.cells, self.p = features.shape
        self.outputs, self.q, self.cells_first = outputs, outputs * self.cells, cells_first
        self.output_shape = (self.n, outputs)
        self._features = features

    @property
    def kept(self) -> Tensor:
        assert self._features is not None
        return self._features

    def features(self, rows: slice) -> Tensor:
        return self.kept[rows]

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        return torch.einsum("bjap,jp->bja", self.features(rows)[:, factors.gate], factors.left)

    def neuron_numbers(self) -> int:
        return self.cells

    def sample_sizes(self) -> Tensor:
        return torch.linalg.vector_norm(self.kept.flatten(2), dim=2).amax(1)

    @property
    def depth(self) -> int:
        return self.cells + 10

    def restrict(self, gates: Tensor) -> Self:
        return type(self)(self.kept[:, gates], self.outputs, self.cells_first)

    def to(self, dtype: torch.dtype) -> Self:
        return self if dtype == self.dtype else type(self)(self.kept.to(dtype), self.outputs, self.cells_first)
