"""The rows Φ of one group of a block's features, on data: what bounds arrangements and cones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from provenet import batches
from provenet.operators import Operator
from provenet.ranks.context import anywhere
from provenet.vectors import times_power_of_two

if TYPE_CHECKING:
    from provenet.blocks.base import Block


_ALL = slice(None)


@dataclass(frozen=True)
class Table:
    """Φ written down: rows (N, p), each divided by a power of two (N,) so that its largest entry is about one.

    Arrangements and cones are the same, and squares neither overflow nor vanish.  noise (N,): what rounding may do to
    a row times a unit vector, where rows are computed; None where they are X's own numbers.
    """

    rows: Tensor
    unit: Tensor
    noise: Tensor | None

    @staticmethod
    def of(rows: Tensor, noise: Tensor | None) -> Table:
        unit = torch.exp2(torch.frexp(rows.abs().amax(1))[1].clamp(-1000, 1000).to(rows.dtype))
        return Table(rows / unit[:, None], unit, None if noise is None else noise / unit)

    def in_units_of(self, size: float) -> Tensor:
        """Φ/size, (N, p)."""
        return self.rows * (self.unit / size)[:, None]


@dataclass(frozen=True)
class Rows:
    """Φ of X (n, …), the samples as one group of neurons sees them: n·ρ rows of length p, sample by sample.

    outputs: how many numbers this group says of a sample, or of a token.  p, q: the sizes of a neuron's two layers.
    """

    block: Block
    X: Tensor
    outputs: int
    readout: str
    mask: Tensor | None
    p: int
    q: int

    @cached_property
    def rho(self) -> int:
        """Rows a sample."""
        nothing = torch.zeros(1, self.p, dtype=torch.float64)
        return self.block.sides(self.X[:1].to(torch.float64), nothing).shape[1]

    def __len__(self) -> int:
        return len(self.X) * self.rho

    @cached_property
    def _double(self) -> Tensor:
        return self.X.to(torch.float64)

    def sides(self, vectors: Tensor, samples: slice = _ALL) -> Tensor:
        """Φ h of some samples, (m, b·ρ), for vectors (m, p)."""
        return _by_vector(self.block.sides(self._double[samples], vectors))

    def noise(self, vectors: Tensor, samples: slice = _ALL) -> Tensor:
        """What rounding may do to `sides`, (m, b·ρ)."""
        return _by_vector(self.block.noise(self._double[samples], vectors).expand(-1, self.rho, -1))

    def some(self, index: Tensor) -> Tensor:
        """The rows with these numbers, (…, p)."""
        return self.block.some_rows(self._double, index)

    def lengths(self) -> Tensor:
        """The norms of all rows, (n·ρ,)."""
        known = self.block.row_lengths(self._double)
        if known is not None:
            return known
        every = torch.arange(len(self)).split(batches.count(self.p, batches.PASS))
        return torch.cat([torch.linalg.vector_norm(self.some(index), dim=1) for index in every])

    @cached_property
    def table(self) -> Table | None:
        """All rows, where the block can write them down."""
        rows = self.block.rows(self._double)
        return None if rows is None else Table.of(rows, self.block.row_noise(self._double))

    def patterns(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(1{Φ h ≥ 0} (m, n·ρ), whether rounding decides on which side of h some row lies (m,)), batch by batch.

        Where it does, one order of summation opens the gate and another may close it: the problem and the network
        would differ.  Exact ties are open.
        """
        n, m = len(self.X), len(vectors)
        out = torch.empty(m, n, self.rho, dtype=torch.bool)
        torn = torch.zeros(m, dtype=torch.bool)
        for part in self._batches(m):
            x = self.X[part].to(torch.float64)
            side = self.block.sides(x, vectors)
            out[:, part] = (side >= 0).permute(2, 0, 1)
            near = self._near(x, vectors, side)
            if bool(near.any()):
                torn[near] |= self._torn(x, vectors[near], side[:, :, near]).any(0).any(0)
        return out.flatten(1), anywhere(torn)

    def opened(self, vectors: Tensor) -> Tensor:
        """1{Φ h ≥ 0} (m, n·ρ), of vectors whose `patterns` rounding is known not to decide."""
        out = torch.empty(len(vectors), len(self.X), self.rho, dtype=torch.bool)
        for part in self._batches(len(vectors)):
            side = self.block.sides(self.X[part].to(torch.float64), vectors)
            out[:, part] = (side >= 0).permute(2, 0, 1)
        return out.flatten(1)

    def _batches(self, vectors: int) -> list[slice]:
        """Samples whose sides, or inputs, are worked on at a time."""
        return batches.slices(len(self.X), max(self.rho * vectors, math.prod(self.X.shape[1:])), batches.WAVE)

    def decided(self, vectors: Tensor) -> Tensor:
        """`patterns`, where rounding decides of none of them."""
        patterns, torn = self.patterns(vectors)
        if bool(torn.any()):
            raise ValueError(
                f"gates: gate {int(torch.nonzero(torn)[0])} passes so close to a row of the data that rounding decides "
                "on which side it is; move the gate a little."
            )
        return patterns

    def _near(self, x: Tensor, vectors: Tensor, side: Tensor) -> Tensor:
        """Of which vectors a side may be within rounding of zero, (m,): `noise` of one that is larger than all of them,
        entry by entry, is no less than theirs, and a small part of the work."""
        if len(vectors) == 0:
            return torch.zeros(0, dtype=torch.bool)
        noise = self.block.noise(x, 2 * vectors.abs().amax(0, keepdim=True))
        return (~(noise == 0) & ~(side.abs() > noise)).any(0).any(0)

    def _torn(self, x: Tensor, vectors: Tensor, side: Tensor) -> Tensor:
        """Where the side is within rounding of zero; an exact zero is a tie, and no tear, if every sum is exact."""
        noise = self.block.noise(x, vectors)  # zero where all products are: then the side is zero in any order
        torn = (noise > 0) & (side.abs() <= noise)
        tied = torn & (side == 0)
        if self.block.order == 0 or not bool(tied.any()):
            return torn
        # products are multiples of one power of two, and so are all partial sums: below 2⁵² of it none rounds
        unit = _quantum(x).clamp_max(1.0) ** self.block.order * torch.stack([_quantum(vector) for vector in vectors])
        return torn & ~(tied & (self.block.sides(x.abs(), vectors.abs()) < 2**52 * unit))

    def operator(self, patterns: Tensor | None, scale: float) -> Operator:
        """That of X/scale behind gates with these patterns (P, n·ρ); None: one gate, open."""
        opened = None if patterns is None else patterns.view(len(patterns), len(self.X), self.rho)
        return self.block.operator(self, opened, scale)


def _by_vector(sides: Tensor) -> Tensor:
    """(n, ρ, m) → (m, n·ρ)."""
    return sides.permute(2, 0, 1).flatten(1)


def _quantum(tensor: Tensor) -> Tensor:
    """The largest power of two of which all entries are multiples; 1 where all are zero."""
    mantissa, exponent = torch.frexp(tensor[tensor != 0])
    if mantissa.numel() == 0:
        return tensor.new_ones(())
    digits = (mantissa * 2**53).to(torch.int64)
    return times_power_of_two((digits & -digits).to(tensor.dtype), exponent - 53).min()
