"""Samples in shards, and those of other processes beside them: predictions are this process's, sums are of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches
from provenet.operators.bases.axes import Axes
from provenet.operators.bases.base import Backward, Operator
from provenet.operators.bases.rank import axes_from, moments_of, typical_stride
from provenet.ranks import Spread, Whole
from provenet.variable import Factors, Stack


class RankedOperator(Operator):
    """parts: an operator for each of this process's shards, in their order.

    Predictions (n', …, c) and residuals are of this process's n' samples; A*R is Σ_s A_s*R_s over the shards of all
    processes, and known to each.
    """

    def __init__(self, parts: Sequence[Operator], shards: Spread):
        first = parts[0]
        self.parts, self._shards, self.space = tuple(parts), shards, first.space
        self.n_gates, self.p, self.q = first.stack_shape
        self.output_shape = (sum(part.output_shape[0] for part in parts), *first.output_shape[1:])

    @property
    def shards(self) -> Whole:
        return self._shards

    def _rows(self, residual: Tensor) -> Iterator[Tensor]:
        """Of every shard, in memory of their own: where they lie must not matter to how they are added."""
        return (residual[rows].clone() for rows in self._shards.slices)

    def forward(self, stack: Stack) -> Tensor:
        return torch.cat([part.forward(stack) for part in self.parts])

    def adjoint(self, residual: Tensor) -> Stack:
        return self._shards.add(part.adjoint(rows) for part, rows in zip(self.parts, self._rows(residual), strict=True))

    def forward_factors(self, factors: Factors) -> Tensor:
        return torch.cat([part.forward_factors(factors) for part in self.parts])

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self._added(residual, [_at(part, factors) for part in self.parts])

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        hidden = math.prod(self.output_shape[:-1]) * (self.q // self.output_shape[-1])
        if 2 * factors.n_neurons * hidden * self.dtype.itemsize > batches.MOST_KEPT:
            return super().both_ways(factors)
        predictions, backs = zip(*(part.both_ways(factors) for part in self.parts), strict=True)
        return torch.cat(predictions), lambda residual: self._added(residual, backs)

    def _added(self, residual: Tensor, backs: Sequence[Backward]) -> tuple[Tensor, Tensor]:
        both = (torch.cat(back(rows), dim=1) for back, rows in zip(backs, self._rows(residual), strict=True))
        left, right = self._shards.add(both).split([self.p, self.q], dim=1)
        return left.contiguous(), right.contiguous()

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        pieces = []
        for part, own in zip(self.parts, self._shards.slices, strict=True):
            start, stop = max(rows.start, own.start), min(rows.stop, own.stop)
            if start < stop:
                pieces.append(part.alone(factors, slice(start - own.start, stop - own.start)))
        return torch.cat(pieces, dim=1)

    def principal_axes(self) -> Axes | None:
        seen = [part.axis_rows for part in self.parts]
        there = [rows for rows in seen if rows is not None]
        if self._shards.largest(float(len(there) < len(seen))):  # one process may have no room for its features
            return None
        count = self._sum([float(rows.numel() // self.p) for rows in there])
        stride = typical_stride(round(count), self.p)
        if stride is None:
            return None
        return axes_from(self._shards.add(moments_of(rows, stride) for rows in there), self.dtype)

    def turned(self, basis: Tensor) -> RankedOperator:
        return self._each(lambda part: part.turned(basis))

    def _each(self, change: Callable[[Operator], Operator]) -> RankedOperator:
        return RankedOperator([change(part) for part in self.parts], self._shards)

    def restrict(self, gates: Tensor) -> RankedOperator:
        return self._each(lambda part: part.restrict(gates))

    def once(self) -> Self:
        return self._with(parts=tuple(part.once() for part in self.parts))

    def norm_upper(self) -> float:
        return self._sum([part.norm_upper() ** 2 for part in self.parts]) ** 0.5 * (
            1 + self._shards.count * torch.finfo(torch.float64).eps
        )

    def rounding(self, residual: Tensor) -> float:
        # each level of the tree rounds by eps/2 of the sizes below it, and those are parts' roundings over eps at most
        parts = [part.rounding(rows) for part, rows in zip(self.parts, self._rows(residual), strict=True)]
        return (1 + math.log2(self._shards.count)) * self._sum(parts)

    def _sum(self, numbers: Sequence[float]) -> float:
        """Over the shards of all processes."""
        return float(self._shards.add(torch.tensor(number, dtype=torch.float64, device="cpu") for number in numbers))

    @property
    def held_bytes(self) -> int:
        return self._held

    @cached_property
    def _held(self) -> int:
        """Of all processes, as all that a plan counts is."""
        return round(self._sum([float(part.held_bytes) for part in self.parts]))

    @property
    def kernel_rows(self) -> int:
        return self._shards.n * math.prod(self.output_shape[1:-1])

    @property
    def neuron_work(self) -> float:
        return self._neuron_work

    @cached_property
    def _neuron_work(self) -> float:
        return self._sum([part.neuron_work for part in self.parts])


def _at(part: Operator, factors: Factors) -> Backward:
    return lambda residual: part.adjoint_factors(residual, factors)
