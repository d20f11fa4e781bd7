"""Blocks with one output a sample: their gated, pooled features are a data matrix.

Whatever the block, with the readout ``mean`` or a pooling P_a

    A(Z)_i = Σ_k Σ_a F_k[i, a, :] Z_k[:, (a, ·)],     F_k[i, a, :] = Σ_r P[a, r] D_k[i, r] Φ_i[r, :]

so tokens or positions are summed once, and all gates and outputs share them.  Where F fits into memory it is kept, and
a step costs what an MLP's does; else it is made batch by batch, and neurons go through their hidden layer.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches, deadline, memory
from provenet.operators.bases.base import Backward, Operator
from provenet.operators.bases.batched import BatchedOperator
from provenet.operators.bases.features import FeatureOperator, as_stack, narrowed
from provenet.variable import Factors, Stack

_KEEP_SHARE = 0.15  # of the free memory, for features above `batches.KEPT`
_LIMIT_PARTS = 3  # of a limit, if there is one: features take one at most


class PooledOperator(BatchedOperator):
    """``cells`` and ``cells_first`` as in `FeatureOperator`."""

    has_kernel = True
    narrows = True
    cells: int = 1
    cells_first: bool = True
    outputs: int

    _keeps = True

    def once(self) -> Self:
        return self._with(_keeps=False)

    @abstractmethod
    def features(self, rows: slice) -> Tensor:
        """F of some samples, (b, P, a, p)."""

    @abstractmethod
    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        """Every neuron's pooled hidden values Σ_r P[a, r] D[r] Φ[r] u, (b, N, a), without the features."""

    @torch.enable_grad()
    def pooled_back(self, rows: slice, factors: Factors, slope: Tensor) -> Tensor:
        """The transpose of `pooled` in the first layers, of slopes (b, N, a): (N, p)."""
        left = factors.left.detach().clone().requires_grad_()
        self.pooled(rows, Factors(left, factors.right, factors.gate)).backward(slope)
        return torch.zeros_like(left) if left.grad is None else left.grad

    @cached_property
    def kept(self) -> FeatureOperator | None:
        """The operator of all samples' features, where they fit."""
        if not self._worth_keeping:
            return None
        features = self.space.empty(self.n, self.n_gates, self.cells, self.p)
        for rows in self.batches(max(self._feature_numbers, self._source[0].numel())):  # a batch's input counts as well
            features[rows] = self.features(rows)
        return self._on(features)

    def _on(self, features: Tensor) -> FeatureOperator:
        return FeatureOperator(features, self.outputs, self.cells_first)

    @property
    def _most_kept(self) -> int:
        return batches.MOST_KEPT

    @cached_property
    def _worth_keeping(self) -> bool:
        needed = self._feature_bytes
        if not self._keeps or needed > self._most_kept:
            return False
        return needed <= batches.share(_LIMIT_PARTS) and (needed <= batches.KEPT or memory.fits(needed, _KEEP_SHARE))

    @property
    def _feature_numbers(self) -> int:
        return self.n_gates * self.cells * self.p

    @property
    def _feature_bytes(self) -> int:
        return self.n * self._feature_numbers * self.dtype.itemsize

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + (self._feature_bytes if self._worth_keeping else 0)

    @property
    def neuron_work(self) -> float:
        return self._work_on_features if self._worth_keeping else super().neuron_work

    @property
    def product_size(self) -> float:
        return self.cells * super().product_size

    def stack_numbers(self) -> int:
        return self._feature_numbers + self.outputs

    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        return self._on(self.features(rows)).forward(stack)

    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        return self.pooled(rows, factors).flatten(1) @ self._by_cell(factors.right)

    def _by_cell(self, right: Tensor) -> Tensor:
        """Second layers (N, q) as (N·a, c)."""
        by_cell = right.view(len(right), *self._cell_shape)
        return (by_cell if self.cells_first else by_cell.transpose(1, 2)).reshape(-1, self.outputs)

    @property
    def _cell_shape(self) -> tuple[int, int]:
        return (self.cells, self.outputs) if self.cells_first else (self.outputs, self.cells)

    def forward(self, stack: Stack) -> Tensor:
        return super().forward(stack) if self.kept is None else self.kept.forward(stack)

    def adjoint(self, residual: Tensor) -> Stack:
        if self.kept is not None:
            return self.kept.adjoint(residual)
        slope = self.space.zeros(self.outputs, self._feature_numbers)
        some = batches.slices(self.n, self._feature_numbers, batches.BLOCK, self.dtype.itemsize)
        for rows in deadline.paced(some):
            slope.addmm_(residual[rows].T, self.features(rows).flatten(1))
        return as_stack(slope.view(self.outputs, self.n_gates, self.cells, self.p), self.cells_first)

    def forward_factors(self, factors: Factors) -> Tensor:
        return super().forward_factors(factors) if self.kept is None else self.kept.forward_factors(factors)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        if self.kept is None:
            return self._back(residual, factors, None)
        return self.kept.adjoint_factors(residual, factors)

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        """Hidden values are kept where they fit; what is made of inputs is made twice in any case."""
        if self.kept is not None:
            return self.kept.both_ways(factors)
        numbers = self.n * factors.n_neurons * self.cells
        if not 0 < numbers * self.dtype.itemsize <= min(batches.MOST_KEPT, batches.share(_LIMIT_PARTS)):
            return super().both_ways(factors)
        hidden, by_cell = self.space.empty(self.n, numbers // self.n), self._by_cell(factors.right)
        with torch.no_grad():
            for rows in self.batches(self.numbers(factors)):
                hidden[rows] = self.pooled(rows, factors).flatten(1)
        return hidden @ by_cell, lambda residual: self._back(residual, factors, hidden)

    @torch.no_grad()
    def _back(self, residual: Tensor, factors: Factors, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """`adjoint_factors`, of hidden values (n, N·a) that are there, or made anew."""
        by_cell = self._by_cell(factors.right)
        left, right = torch.zeros_like(factors.left), torch.zeros_like(by_cell)
        for rows in self.batches(self.numbers(factors)) if factors.n_neurons else ():
            some = self.pooled(rows, factors).flatten(1) if hidden is None else hidden[rows]
            right.addmm_(some.T, residual[rows])
            slope = (residual[rows] @ by_cell.T).view(-1, factors.n_neurons, self.cells)
            left += self.pooled_back(rows, factors, slope)
        by_neuron = right.view(factors.n_neurons, self.cells, self.outputs)
        return left, (by_neuron if self.cells_first else by_neuron.transpose(1, 2)).reshape(factors.right.shape)

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        if self.kept is not None:
            return self.kept.alone(factors, rows)
        right = self._by_cell(factors.right).view(factors.n_neurons, self.cells, self.outputs)
        return torch.bmm(self.pooled(rows, factors).transpose(0, 1), right)  # (N, b, a) by (N, a, c)

    @property
    def axis_rows(self) -> Tensor | None:
        return None if self.kept is None else self.kept.axis_rows

    def turned(self, basis: Tensor) -> Operator:
        return super().turned(basis) if self.kept is None else self.kept.turned(basis)

    def jacobian(self, factors: Factors) -> Tensor:
        return super().jacobian(factors) if self.kept is None else self.kept.jacobian(factors)

    def second_layer_columns(self, left: Tensor, gate: Tensor) -> Tensor:
        if self.kept is None:
            return super().second_layer_columns(left, gate)
        return self.kept.second_layer_columns(left, gate)

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        if self.kept is None:
            return narrowed(self, gates, basis, self.pooled, self.outputs, self.cells_first)
        return self.kept.narrowed(gates, basis)

    def kernel(self) -> Tensor:
        if self.kept is not None:
            return self.kept.kernel()
        total = self.space.zeros(self.n, self.n)
        group = batches.count(self.n * self.cells * self.p, batches.MOST_KEPT)
        for gates in self.space.arange(self.n_gates).split(group):
            some = self.restrict(gates)
            flat = torch.cat([some.features(rows) for rows in self.batches(some._feature_numbers)]).flatten(1)
            total.addmm_(flat, flat.T)
        return total

    def restrict(self, gates: Tensor) -> Self:
        other, kept = super().restrict(gates), self.made("kept")
        if other is not self and kept is not None:
            other.kept = kept.restrict(gates)
        return other

    def part(self, samples: Tensor) -> Self:
        other, kept = super().part(samples), self.made("kept")
        if kept is not None:
            other.kept = kept.part(samples)
        return other

    def reduced(self) -> tuple[Operator, Tensor] | None:
        return None if self.kept is None else self.kept.reduced()
