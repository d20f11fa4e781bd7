"""Operators that are quadratic in the tokens: queries times second moments.

A head (W₁, W₂) of self-attention behind gate k gives token t of sample i the output
Σ_r D_k[t, r] (x_tᵀ W₁ x_r) x_rᵀ W₂.  In x_r it is quadratic, so whatever the activation and the readout, the stack
Z_k[(a, b), (e, c)] meets the data as

    out = Q · (M S),    S[(k, b ≤ e), (a, c)] = Z_k[(a, b), (e, c)] + Z_k[(a, e), (b, c)]  (once where b = e)

with queries Q and second moments M of the tokens.  Only pairs b ≤ e are kept, half of them all; where the moments fit
into memory they are kept, else they are made batch by batch, gate by gate.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches, deadline
from provenet.operators.bases.batched import NeuronsByBatch
from provenet.variable import Stack

_TILE_SAMPLES = 32  # samples whose moments are made at a time, at most: rather fewer of them, and all gates
_KERNEL_WORK = 3e11  # multiply-adds for which a kernel is worth having


class MomentOperator(NeuronsByBatch):
    """``width``: g, the entries of a query; a row of moments has ``row_numbers`` entries for every gate."""

    width: int
    row_numbers: int
    remembered = ("_last",)
    _last: tuple[Tensor, Stack] | None = None

    def __init__(
        self,
        X: Tensor,
        patterns: Tensor | None,
        outputs: int,
        readout: str,
        divisor: float,
        mask: Tensor | None,
        scale: float,
    ):
        super().__init__(X, patterns, scale)
        self.s, self.d, self.outputs = X.shape[1], X.shape[2], outputs
        self.p, self.q = self.d**2, self.d * outputs
        self.mean, self.divisor = readout == "mean", divisor
        self.output_shape = (self.n, outputs) if self.mean else (self.n, self.s, outputs)
        self.count = self.space.full((self.n,), self.s) if mask is None else self.space.move(mask.sum(1).double())
        self.high, self.low = torch.triu_indices(self.d, self.d, device=X.device).unbind()  # the pairs b ≤ e
        self._unequal = torch.nonzero(self.high != self.low).flatten()
        self._size()

    @abstractmethod
    def _size(self) -> None:
        """Set ``width`` and ``row_numbers``."""

    @abstractmethod
    def queries(self, rows: slice) -> Tensor | None:
        """Q of some samples, (rows, m, g); None: one."""

    @abstractmethod
    def moments(self, rows: slice) -> Callable[[slice], Tensor]:
        """M of some samples, (rows, gates·row_numbers), for the gates that are asked for."""

    @property
    def rows_each(self) -> int:
        """Rows of moments a sample has."""
        return 1

    @property
    def pairs(self) -> int:
        return len(self.high)

    @cached_property
    def pair(self) -> Tensor:
        """Where (b, e) is among the pairs, (d²,)."""
        where = self.space.empty(self.d, self.d, dtype=torch.long)
        where[self.high, self.low] = where[self.low, self.high] = self.space.arange(self.pairs)
        return where.flatten()

    def share(self, rows: slice) -> Tensor:
        """What a token counts in the mean, over ``divisor``, (b,)."""
        return (1 / (self.count[rows] * self.divisor)).to(self.dtype)

    def products(self, x: Tensor) -> Tensor:
        """x_r x_rᵀ of every token, (b, s, pairs)."""
        return x[..., self.high] * x[..., self.low]

    # the stack

    @property
    def _moment_numbers(self) -> int:
        return self.n_gates * self.row_numbers * self.rows_each

    @cached_property
    def kept(self) -> Tensor | None:
        """The moments of all samples, (rows, P·row_numbers), where they fit."""
        if not self.fits(self._moment_numbers):
            return None
        everything = slice(0, self.n_gates)
        numbers = self.n_gates * self.row_numbers
        return self._collected(lambda rows: self.moments(rows)(everything), self.rows_each, numbers)

    @property
    def held_bytes(self) -> int:
        moments = self.n * self._moment_numbers if self.fits(self._moment_numbers) else 0
        return super().held_bytes + moments * self.dtype.itemsize

    def _collected(self, make: Callable[[slice], Tensor], rows_each: int, *shape: int) -> Tensor:
        """What ``make`` says of every batch, (n·rows_each, *shape)."""
        out = self.space.empty(self.n * rows_each, *shape)
        for rows in self.batches(self.stack_numbers()):
            out[rows.start * rows_each : rows.stop * rows_each] = make(rows)
        return out

    def fits(self, numbers: int) -> bool:
        """Whether so many ``numbers`` a sample may be kept."""
        return 8 * self.n * numbers <= batches.KEPT

    def _rows(self, rows: slice) -> Tensor:
        """The moments of some samples behind all gates, (rows, P·row_numbers)."""
        kept = self.kept
        if kept is None:
            return self.moments(rows)(slice(0, self.n_gates))
        return kept[rows.start * self.rows_each : rows.stop * self.rows_each]

    def _tiles(self, through: Callable[[list[slice]], Iterator[slice]]) -> Iterator[tuple[slice, slice, Tensor]]:
        """Some samples, the columns of P·row_numbers that some gates have, and their moments; ``through`` samples."""
        if self.kept is not None:
            for rows in through(self.batches(self.stack_numbers())):
                yield rows, slice(0, self.n_gates * self.row_numbers), self._rows(rows)
            return
        each = self.row_numbers * self.rows_each
        gates = min(self.n_gates, batches.count(_TILE_SAMPLES * each, batches.TILE))
        for rows in through(batches.slices(self.n, gates * each, batches.TILE)):
            made = self.moments(rows)  # what gates share is made once
            for k in range(0, self.n_gates, gates):
                some = slice(k, min(k + gates, self.n_gates))
                yield rows, slice(some.start * self.row_numbers, some.stop * self.row_numbers), made(some)

    def _packed(self, stack: Stack) -> Tensor:
        """S, (P·row_numbers, g·c); where g = 1, a row of moments has (a, pair) for its entries."""
        P, d, c = len(stack), self.d, self.outputs
        cube = stack.reshape(P, d, d * d, c)
        both = cube[:, :, self.high * d + self.low]
        turned = cube[:, :, (self.low * d + self.high)[self._unequal]]
        both = both.index_add(2, self._unequal, turned)
        return (both if self.width == 1 else both.transpose(1, 2)).reshape(-1, self.width * c)

    def _unpacked(self, packed: Tensor) -> Stack:
        """The adjoint of `_packed`, of Sᵀ (g·c, P·row_numbers)."""
        P, d, c = self.n_gates, self.d, self.outputs
        if self.width == 1:
            by_pair = packed.view(c, P, d, self.pairs).permute(1, 2, 3, 0)  # (P, a, pair, c)
        else:
            by_pair = packed.view(d, c, P, self.pairs).permute(2, 0, 3, 1)
        stack = packed.new_empty(P, d, d * d, c)
        for k in range(P):  # so that no second stack exists
            torch.index_select(by_pair[k].contiguous(), 1, self.pair, out=stack[k])
        return stack.view(P, d * d, d * c)

    def _read(self, rows: slice, product: Tensor) -> Tensor:
        """The outputs of M S, (rows, g·c)."""
        product = product.view(-1, self.width, self.outputs)
        queries = self.queries(rows)
        read = product if queries is None else queries @ product
        return read.view(-1, *self.output_shape[1:])

    def stack_numbers(self) -> int:
        """Numbers a sample needs for its moments."""
        return self._moment_numbers + self.s * (self.pairs + self.d)

    def forward(self, stack: Stack) -> Tensor:
        out = self.space.zeros(*self.output_shape)
        packed = self._packed(stack)
        for rows, columns, moments in self._tiles(iter):
            out[rows] += self._read(rows, moments @ packed[columns])
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        """Where moments are made anew it takes seconds: the last is remembered, for a look and the step after it ask
        for the same."""
        if self.kept is not None:
            return self._slope(residual)
        if self._last is None or not torch.equal(self._last[0], residual):
            self._last = residual.clone(), self._slope(residual)
        return self._last[1].clone()

    def _slope(self, residual: Tensor) -> Stack:
        packed = self.space.zeros(self.width * self.outputs, self.n_gates * self.row_numbers)
        for rows, columns, moments in self._tiles(deadline.paced):
            queries, part = self.queries(rows), residual[rows]
            if queries is not None:
                part = queries.transpose(1, 2) @ part.reshape(*queries.shape[:2], self.outputs)
            packed[:, columns].addmm_(part.reshape(-1, len(packed)).T, moments)
        return self._unpacked(packed)

    # the kernel

    @property
    def has_kernel(self) -> bool:  # type: ignore[override]
        """Where it is worth having."""
        rows = float(self.n * self.rows_each)
        return rows * rows * self.n_gates * self.row_numbers <= _KERNEL_WORK

    def kernel(self) -> Tensor:
        """⟨M, M'⟩ of any two rows, times the products of their queries."""
        rows = self.n * self.rows_each
        total = self.space.zeros(rows, rows)
        for gate in self.space.arange(self.n_gates).split(self.n_gates if self.kept is not None else 1):
            self.restrict(gate)._add_products(total)
        return self._times_queries(total)

    def _add_products(self, total: Tensor) -> None:
        """total += ⟨M, M'⟩ over all (b, e): pairs b < e count twice; in blocks of samples."""
        twice = torch.where(self.high == self.low, 1.0, 2.0).to(self.dtype).repeat(self.row_numbers // self.pairs)
        blocks = [slice(0, self.n)]
        if self.kept is None:
            blocks = batches.slices(self.n, self._moment_numbers, batches.BLOCK)
        each = self.rows_each
        for i, left in enumerate(blocks):
            here = slice(left.start * each, left.stop * each)
            moments = self._rows(left)
            weighted = (moments.view(len(moments), self.n_gates, -1) * twice).flatten(1)
            for right in blocks[i:]:
                there = slice(right.start * each, right.stop * each)
                block = weighted @ self._rows(right).T
                total[here, there] += block
                if right is not left:
                    total[there, here] += block.T

    def _times_queries(self, total: Tensor) -> Tensor:
        whole = self.queries(slice(0, self.n))
        if whole is None:
            return total
        rows, m, g = whole.shape
        flat = whole.reshape(rows * m, g)
        out = flat @ flat.T
        out.view(rows, m, rows, m).mul_(total[:, None, :, None])
        return out

    # sizes

    @cached_property
    def _sizes(self) -> Tensor:
        """mean_t ‖x_t‖ · ‖X‖²  for the mean, ‖X‖³ for tokens, (n,): ‖Q‖‖M‖ of entries' absolute values is no larger."""
        parts = (self._source[rows].to(torch.float64) for rows in self.batches(self.s * self.d))
        lengths = torch.cat([torch.linalg.vector_norm(x, dim=2) / self._scale for x in parts])
        total = torch.linalg.vector_norm(lengths, dim=1)
        query = lengths.sum(1) / self.count if self.mean else total
        return query * total.square() / self.divisor

    def sample_sizes(self) -> Tensor:
        return self._sizes.to(self.dtype)

    @property
    def depth(self) -> int:
        # sums over tokens of the query, of the moments and of the residual; a residual's tokens may be summed together
        # with those of all other samples
        return 3 * self.s + 20 + self.n * self.rows_each

    def part(self, samples: Tensor) -> Self:
        other, kept = super().part(samples)._with(count=self.count[samples]), self.made("kept")
        if kept is not None:
            other.kept = kept.view(self.n, self.rows_each, -1)[samples].flatten(0, 1)
        return other

    def restrict(self, gates: Tensor) -> Self:
        other, kept = super().restrict(gates), self.made("kept")
        if other is not self and kept is not None:
            other.kept = kept.view(-1, self.n_gates, self.row_numbers)[:, gates].flatten(1)
        return other
