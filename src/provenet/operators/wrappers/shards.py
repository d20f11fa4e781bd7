"""Operators whose samples come in parts: predictions are theirs in a row, and adjoints are sums of theirs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Axes, Backward, Operator
from provenet.operators.wrappers.base import Wrapper
from provenet.space import Space
from provenet.variable import Factors, Stack

_MOST_WAITING = 256 * 2**20  # bytes of a sum that is kept for whoever asks next


@dataclass
class _Slack:
    """What rounding can hide in a sum of parts: in each of them, and in as many additions of their sizes."""

    parts: float = 0.0
    sizes: float = 0.0
    count: int = 0

    def add(self, part: float, size: float) -> None:
        self.parts, self.sizes, self.count = self.parts + part, self.sizes + size, self.count + 1

    def total(self, eps: float) -> float:
        return self.parts + self.count * eps * self.sizes


class RowsInParts(Operator):
    """A(Z) = [A_1(Z); A_2(Z); …]: each part has some rows of the prediction, and an operator."""

    remembered = ("_known", "_waiting")
    _known: tuple[Tensor, float] | None = None  # a residual and its rounding, so that no pass is made twice;
    _waiting: Stack | None = None  # and its A*R, made on the way, until it is asked for

    @abstractmethod
    def parts(self) -> Iterator[tuple[Any, Operator]]:
        """A pass over the data: rows of the prediction, a slice or their numbers, and their operator."""

    def forward(self, stack: Stack) -> Tensor:
        return self._gathered(lambda operator: operator.forward(stack))

    def forward_factors(self, factors: Factors) -> Tensor:
        return self._gathered(lambda operator: operator.forward_factors(factors))

    def _gathered(self, outputs: Callable[[Operator], Tensor]) -> Tensor:
        out = self.space.empty(*self.output_shape)
        for rows, operator in self.parts():
            out[rows] = outputs(operator)
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        if self._waiting is not None and self._known is not None and torch.equal(self._known[0], residual):
            total, self._waiting = self._waiting, None
            return total
        total, slack = self._summed(residual)
        self._known, self._waiting = (residual, slack), None
        return total

    def _summed(self, residual: Tensor) -> tuple[Stack, float]:
        """A*R, and what rounding can hide in it."""
        total, slack = self.new_stack(), _Slack()
        for rows, operator in self.parts():
            part = operator.adjoint(residual[rows])
            total += part
            slack.add(operator.rounding(residual[rows]), float(torch.linalg.vector_norm(part, dim=(1, 2)).max()))
        return total, slack.total(torch.finfo(self.dtype).eps)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        for rows, operator in self.parts():
            more = operator.adjoint_factors(residual[rows], factors)
            left += more[0]
            right += more[1]
        return left, right

    def norm_upper(self) -> float:
        return sum(operator.norm_upper() ** 2 for _, operator in self.parts()) ** 0.5 * (1 + 1e-12)

    def rounding(self, residual: Tensor) -> float:
        if self._known is not None and torch.equal(self._known[0], residual):
            return self._known[1]
        total, slack = self._summed(residual)
        self._known, self._waiting = (residual, slack), total if total.nbytes <= _MOST_WAITING else None
        return slack


class ShardSource(Protocol):
    """The shards of an operator: made when they are asked for, or kept."""

    rows: list[slice]
    neurons: int  # for so many the hidden values of shards that are kept are kept as well

    def operator(self, shard: int, space: Space, keep: bool) -> tuple[Operator, bool]:
        """That of a shard, with all gates, and whether it stays."""

    def some(self, rows: slice, space: Space) -> Operator:
        """That of any rows."""

    def typical(self, space: Space) -> Operator:
        """That of a few rows, evenly spaced."""


class ShardedOperator(RowsInParts):
    """Rows in shards that are made anew for each pass, or, after `often`, kept where there is room.

    gates (P,): which of the source's.
    """

    in_shards = True
    _keeps = False

    def __init__(self, source: ShardSource, gates: Tensor, p: int, q: int, output_shape: tuple[int, ...]):
        self.source, self.gates, self.space = source, gates, Space()
        self.n_gates, self.p, self.q, self.output_shape = len(gates), p, q, output_shape
        self._whole = True

    def often(self) -> Self:
        return self._with(_keeps=True)

    def restrict(self, gates: Tensor) -> Self:
        return self._with(gates=self.gates[gates], n_gates=len(gates), _whole=False)

    def parts(self) -> Iterator[tuple[slice, Operator]]:
        for rows, operator, _ in self._shards():
            yield rows, operator if self._whole else operator.restrict(self.gates)

    def _shards(self) -> Iterator[tuple[slice, Operator, bool]]:
        for shard, rows in enumerate(self.source.rows):
            yield rows, *self.source.operator(shard, self.space, self._keeps)

    # neurons name their gates: no shard need be restricted for them

    def _named(self, factors: Factors) -> Factors:
        return factors if self._whole else replace(factors, gate=self.gates[factors.gate])

    def forward_factors(self, factors: Factors) -> Tensor:
        own = self._named(factors)
        out = self.space.empty(*self.output_shape)
        for rows, operator, _ in self._shards():
            out[rows] = operator.forward_factors(own)
        return out

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self._back(residual, self._named(factors), {})

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        own, kept = self._named(factors), {}
        out = self.space.empty(*self.output_shape)
        for rows, operator, stays in self._shards():
            if stays and factors.n_neurons <= self.source.neurons:
                out[rows], kept[rows.start] = operator.both_ways(own)
            else:
                out[rows] = operator.forward_factors(own)
        return out, lambda residual: self._back(residual, own, kept)

    def _back(self, residual: Tensor, factors: Factors, kept: dict[int, Backward]) -> tuple[Tensor, Tensor]:
        left, right = torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        for shard, rows in enumerate(self.source.rows):
            back = kept.get(rows.start)
            if back is None:
                operator, _ = self.source.operator(shard, self.space, self._keeps)
                more = operator.adjoint_factors(residual[rows], factors)
            else:
                more = back(residual[rows])
            left += more[0]
            right += more[1]
        return left, right

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        first, end, _ = rows.indices(self.output_shape[0])
        own, size = self._named(factors), self.source.rows[0].stop  # no more rows at a time than a shard has
        pieces = (slice(i, min(i + size, end)) for i in range(first, end, size))
        return torch.cat(
            [self.source.some(some, self.space).alone(own, slice(0, some.stop - some.start)) for some in pieces], dim=1
        )

    def principal_axes(self) -> Axes | None:
        return self.source.typical(self.space).principal_axes()

    def turned(self, basis: Tensor) -> Operator:
        return Turned(self, basis)


class Turned(Wrapper):
    """A(VZ), for an orthonormal V (p, p): neurons are turned, the data stay as they are."""

    def __init__(self, inner: Operator, basis: Tensor):
        super().__init__(inner)
        self.basis, self.in_shards = basis, inner.in_shards

    def _lowered_stack(self, stack: Stack) -> Stack:
        return self.basis @ stack

    def _raised_stack(self, slope: Stack) -> Stack:
        return self.basis.T @ slope

    def lowered(self, factors: Factors) -> Factors:
        return replace(factors, left=factors.left @ self.basis.T)

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return left @ self.basis, right

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        return self.inner.alone(self.lowered(factors), rows)

    def rounding(self, residual: Tensor) -> float:
        size = self.inner.norm_upper() * float(torch.linalg.vector_norm(residual))
        return (1 + 1e-6) * self.inner.rounding(residual) + 2 * self.p * torch.finfo(self.dtype).eps * size
