"""What steps have shown of the curvature: limited memory BFGS (Nocedal 1980), between two scales that may change.

The two loops over the pairs (s, y) solve triangular systems in R = upper triangle of SYᵀ, rows of S and Y the pairs:

    Rα = Sg,    r = D(g − Yᵀα),    Rᵀγ = diag(R)α − Yr,    H g = r + Sᵀγ

So a direction is four products with all pairs, not four a pair.  Pairs lie in memory block by block: the oldest block
is let go as a whole, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from provenet.space import read

_CURVED = 1e-10  # of ‖s‖‖y‖: less says nothing of the curvature
_BLOCK, _BLOCKS = 16, 4  # pairs in a block, or fewer, so that there may be so many blocks
_ALIGNED = 16  # numbers: where every row begins alike, last digits do not hang on which row it is


class _Room:
    """Memory (2, most, W) for the pairs of a block and those that follow, of which ``filled`` are there: no part of any
    state, which sees its own rows alone."""

    def __init__(self, like: Tensor, most: int, width: int):
        self.memory = like.new_empty(2, most, -(-width // _ALIGNED) * _ALIGNED)[..., :width]
        self.filled = 0

    @property
    def most(self) -> int:
        return self.memory.shape[1]

    def add(self, pairs: Tensor) -> Tensor:
        """All rows (2, count, W), these (2, k, W) the last of them."""
        begin, self.filled = self.filled, self.filled + pairs.shape[1]
        self.memory[:, begin : self.filled] = pairs
        return self.memory[:, : self.filled]


@dataclass(frozen=True)
class Block:
    """Pairs (2, count, W): ``steps`` s, and ``changes`` y of the gradient along them."""

    pairs: Tensor
    room: _Room

    @staticmethod
    def of(pairs: Tensor, most: int) -> Block:
        """These, and room for ``most``."""
        room = _Room(pairs, max(most, pairs.shape[1]), pairs.shape[2])
        return Block(room.add(pairs), room)

    @property
    def steps(self) -> Tensor:
        return self.pairs[0]

    @property
    def changes(self) -> Tensor:
        return self.pairs[1]

    @property
    def count(self) -> int:
        return self.pairs.shape[1]

    @property
    def full(self) -> bool:
        return self.count == self.room.most

    def after(self, pair: Tensor) -> Block:
        """With one more, (2, 1, W), in the same memory, unless another has gone on in it."""
        mine = self if self.room.filled == self.count else Block.of(self.pairs, self.room.most)
        return Block(mine.room.add(pair), mine.room)


@dataclass(frozen=True)
class Pairs:
    """The last pairs, the latest one last, ``most`` or up to a block fewer.  corner (k, k): R, in float64."""

    most: int
    blocks: tuple[Block, ...] = ()
    corner: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.float64))

    def __len__(self) -> int:
        return len(self.corner)

    @staticmethod
    def of(most: int, blocks: Iterable[Block]) -> Pairs:
        """All that is known of these, but for the oldest where they are too many."""
        held = tuple(blocks)
        if not held:
            return Pairs(most)
        corner = torch.cat([torch.cat([one.steps @ two.changes.T for two in held], 1) for one in held])
        corner = corner.triu().to(torch.float64)
        corner.diagonal().copy_(torch.cat([_products(one.pairs)[0] for one in held]))
        return Pairs(most, held, corner)._shortened()

    def after(self, step: Tensor, change: Tensor) -> Pairs:
        """With one more, (N, w), where it shows positive curvature."""
        step, change = step.flatten(), change.flatten()
        norms = torch.linalg.vector_norm(step), torch.linalg.vector_norm(change)
        product, *sizes = read(torch.dot(step, change), *norms)
        if not product > _CURVED * sizes[0] * sizes[1]:
            return self
        pair = torch.stack([step, change])[:, None]
        if self.blocks and not self.blocks[-1].full:
            blocks = (*self.blocks[:-1], self.blocks[-1].after(pair))
        else:
            blocks = (*self.blocks, Block.of(pair, max(min(_BLOCK, self.most // _BLOCKS), 1)))
        column = _with_steps(blocks, change)
        column[-1] = product  # which is known to be positive, whatever another order of summation says
        corner = torch.cat([pad(self.corner.to(column.device), (0, 0, 0, 1)), column[:, None]], dim=1)
        return Pairs(self.most, blocks, corner)._shortened()

    def direction(self, slope: Tensor, scales: Tensor) -> Tensor:
        """−H∇; scales (N, w) are an inverse diagonal Hessian D to begin from, right but for a factor.  Nothing is read
        on the way: numbers stay where the vectors are."""
        rest, flat = slope.flatten().clone(), scales.flatten()
        if not self.blocks:
            return rest.mul_(flat).neg_().view_as(slope)
        alpha = _solved(self.corner, _with_steps(self.blocks, rest), upper=True)
        for block, part in _parts(self.blocks, alpha):
            rest.addmv_(block.changes.T, part.to(rest.dtype), alpha=-1)
        last = self.blocks[-1].changes[-1]
        diagonal = self.corner.diagonal()
        rest.mul_(flat).mul_(diagonal[-1] / torch.dot(last, flat * last))
        seen = torch.cat([block.changes @ rest for block in self.blocks]).to(torch.float64)
        gamma = _solved(self.corner.T, diagonal * alpha - seen, upper=False)
        for block, part in _parts(self.blocks, gamma):
            rest.addmv_(block.steps.T, part.to(rest.dtype))
        return rest.neg_().view_as(slope)

    def carried(self, width: int, kept: Tensor, more: int, most: int) -> Pairs:
        """For the neurons ``kept`` (m,), of ``width`` weights, and ``more`` new ones of which nothing is known."""

        def changed(rows: Tensor) -> Tensor:
            return pad(rows.unflatten(2, (-1, width))[:, :, kept].flatten(2), (0, more * width))

        return self._by(changed, most)

    def to(self, dtype: torch.dtype, most: int) -> Pairs:
        """In another precision, and no more than ``most`` of them."""
        return self._by(lambda rows: rows.to(dtype), most)

    def _by(self, changed: Callable[[Tensor], Tensor], most: int) -> Pairs:
        """The pairs (2, k, W) of each block after a change, where they still show positive curvature."""
        blocks = []
        for block in self.blocks:
            pairs = changed(block.pairs)
            product, size = _products(pairs)
            curved = product > torch.finfo(pairs.dtype).eps * size
            if bool(curved.any()):
                blocks.append(Block.of(pairs[:, curved], block.room.most))
        return Pairs.of(most, blocks)

    def _shortened(self) -> Pairs:
        """Without its oldest block where there are too many; a block that is most of them loses as many as must go."""
        excess, first = len(self) - self.most, self.blocks[0] if self.blocks else None
        if excess <= 0 or first is None:
            return self
        gone, blocks = first.count, self.blocks[1:]
        if gone > max(excess, self.most // 2):
            gone = excess
            blocks = (Block.of(first.pairs[:, gone:], first.room.most), *blocks)
        return Pairs(self.most, blocks, self.corner[gone:, gone:])._shortened()


def _products(pairs: Tensor) -> tuple[Tensor, Tensor]:
    """sᵀy (k,) in float64, and Σ|s_i y_i|."""
    both = pairs[0].to(torch.float64) * pairs[1].to(torch.float64)
    return both.sum(1), both.abs().sum(1)


def _with_steps(blocks: tuple[Block, ...], vector: Tensor) -> Tensor:
    """S v, (k,), in float64."""
    return torch.cat([block.steps @ vector for block in blocks]).to(torch.float64)


def _parts(blocks: tuple[Block, ...], values: Tensor) -> Iterable[tuple[Block, Tensor]]:
    return zip(blocks, values.split([block.count for block in blocks]), strict=True)


def _solved(triangle: Tensor, right: Tensor, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(triangle, right[:, None], upper=upper).squeeze(1)
