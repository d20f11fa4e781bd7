"""Gated, pooled features that are there: what the blocks with one output a sample come down to.

A(Z)_i = Σ_k Σ_a F_k[i, a, :] Z_k[:, (a, ·)]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches
from provenet.operators.bases import lanes
from provenet.operators.bases.base import Backward, Operator
from provenet.operators.bases.batched import NeuronsByBatch
from provenet.operators.bases.rank import is_affordable, paying_span
from provenet.operators.bases.samples import BoundedBySamples
from provenet.space import Space
from provenet.variable import Factors, Stack


class FeatureOperator(BoundedBySamples):
    """features (n, P, a, p); where P = 1, the operator of a linear block.

    ``cells``: a, how many pooled values a neuron has.  ``cells_first``: v is (a, c), else (c, a), row-major.
    """

    has_kernel = True
    narrows = True

    def __init__(self, features: Tensor, outputs: int, cells_first: bool = True):
        self.features, self.space = features, Space.of(features)
        self.n, self.n_gates, self.cells, self.p = features.shape
        self.outputs, self.q, self.cells_first = outputs, outputs * self.cells, cells_first
        self.output_shape = (self.n, outputs)

    def forward(self, stack: Stack) -> Tensor:
        P, p, _ = self.stack_shape
        weights = self._by_cell(stack.reshape(P * p, self.q)).view(P, p, self.cells, self.outputs)
        return self.features.flatten(1) @ weights.transpose(1, 2).reshape(-1, self.outputs)

    def adjoint(self, residual: Tensor) -> Stack:
        slope = residual.T @ self.features.flatten(1)  # row by row; their transpose is read three times slower
        return as_stack(slope.view(self.outputs, self.n_gates, self.cells, self.p), self.cells_first)

    def forward_factors(self, factors: Factors) -> Tensor:
        if factors.n_neurons == 0:
            return self.space.zeros(*self.output_shape)
        return self._pass(factors).forward()[0]

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        if factors.n_neurons == 0:
            return torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        return self._by_weight(self._pass(factors).adjoint(residual))

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        if factors.n_neurons == 0:
            return super().both_ways(factors)
        there = self._pass(factors)
        prediction, kept = there.forward(keep=True)
        return prediction, lambda residual: self._by_weight(there.adjoint(residual, kept))

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        right = self._by_cell(factors.right)
        pooled = lanes.Pass(self.features[rows], factors.gate, factors.left, right).hidden()
        return torch.bmm(pooled.mT, right)

    def _pass(self, factors: Factors) -> lanes.Pass:
        return lanes.Pass(self.features, factors.gate, factors.left, self._by_cell(factors.right))

    def _by_weight(self, slopes: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Those of second layers (N, a, c) as (N, q)."""
        left, right = slopes
        return left, (right if self.cells_first else right.transpose(1, 2)).reshape(-1, self.q)

    @property
    def axis_rows(self) -> Tensor:
        return self.features

    def turned(self, basis: Tensor) -> FeatureOperator:
        return self._with(features=self.features @ basis)

    def _by_cell(self, right: Tensor) -> Tensor:
        """Second layers (N, q) as (N, a, c)."""
        if self.cells_first:
            return right.view(-1, self.cells, self.outputs)
        return right.view(-1, self.outputs, self.cells).transpose(1, 2)

    def jacobian(self, factors: Factors) -> Tensor:
        columns = self.space.zeros(factors.n_neurons, self.p + self.q, *self.output_shape)
        features = self.features[:, factors.gate]  # (n, N, a, p): gathered once
        columns[:, : self.p] = torch.einsum("njap,jac->jpnc", features, self._by_cell(factors.right))
        self._fill_hidden(features, factors.left, columns[:, self.p :])
        return columns

    def _fill_second(self, left: Tensor, gate: Tensor, columns: Tensor) -> None:
        self._fill_hidden(self.features[:, gate], left, columns)

    def _fill_hidden(self, features: Tensor, left: Tensor, columns: Tensor) -> None:
        """Each neuron's hidden values, from its own features (n, N, a, p), where its second layer reads them."""
        hidden = torch.einsum("njap,jp->jan", features, left)
        shape = (self.cells, self.outputs) if self.cells_first else (self.outputs, self.cells)
        second = columns.unflatten(1, shape)  # (N, a, c, n, c) or (N, c, a, n, c)
        by_cell = second if self.cells_first else second.transpose(1, 2)
        by_cell.diagonal(dim1=2, dim2=4).copy_(hidden[..., None])

    def kernel(self) -> Tensor:
        flat = self.features.flatten(1)
        return flat @ flat.T

    def sample_sizes(self) -> Tensor:
        return torch.linalg.vector_norm(self.features.flatten(2), dim=2).amax(1)

    @property
    def depth(self) -> int:
        return self.cells + 10

    @property
    def product_size(self) -> float:
        return self.cells * super().product_size

    @property
    def held_bytes(self) -> int:
        return self.features.nbytes

    def restrict(self, gates: Tensor) -> Self:
        return self._with(features=self.features[:, gates], n_gates=len(gates))

    def part(self, samples: Tensor) -> Self:
        n = len(samples)
        return self._with(features=self.features[samples], n=n, output_shape=(n, self.outputs))

    def narrowed(self, gates: Tensor, basis: Tensor) -> FeatureOperator:
        few = self.space.empty(self.n, len(gates), self.cells, basis.shape[1])
        numbers = len(gates) * self.cells * self.p
        for rows in batches.slices(self.n, numbers, batches.BATCH, self.dtype.itemsize):
            few[rows] = self.features[rows].index_select(1, gates) @ basis.mT
        return FeatureOperator(few, self.outputs, self.cells_first)

    def reduced(self) -> tuple[Operator, Tensor] | None:
        known = "_reduced" in self.__dict__
        return self._reduced if known or is_affordable(self.features) else None

    @cached_property
    def _reduced(self) -> tuple[Operator, Tensor] | None:
        basis = paying_span(self.features)
        return None if basis is None else (self._with(features=self.features @ basis, p=basis.shape[1]), basis)


def as_stack(slope: Tensor, cells_first: bool) -> Stack:
    """A*R (P, p, q) of Σ_i R_i ⊗ F_i, (c, P, a, p)."""
    cells, columns = (2, 0) if cells_first else (0, 2)
    return slope.permute(1, 3, cells, columns).flatten(2)


def narrowed(
    operator: NeuronsByBatch,
    gates: Tensor,
    basis: Tensor,
    pooled: Callable[[slice, Factors], Tensor],
    outputs: int,
    cells_first: bool = True,
) -> FeatureOperator:
    """The pooled hidden values (b, N, a) of neurons with these first layers, as features (n, K, a, r)."""
    K, r, _ = basis.shape
    left = basis.flatten(0, 1).contiguous()  # of a single gate it is a view, laid out as a factorisation left it
    neurons = Factors(left, left.new_zeros(len(left), operator.q), gates.repeat_interleave(r))
    features = operator.space.empty(operator.n, K, operator.q // outputs, r)
    for rows in operator.batches(operator.numbers(neurons)):
        features[rows] = pooled(rows, neurons).unflatten(1, (K, r)).transpose(2, 3)
    return FeatureOperator(features, outputs, cells_first)
