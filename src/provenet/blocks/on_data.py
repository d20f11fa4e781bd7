"""A block bound to its data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from provenet.blocks.rows import Rows, Table
from provenet.gates import Gates
from provenet.operators import Operator
from provenet.operators.wrappers.grouped import GroupedOperator, Part

if TYPE_CHECKING:
    from provenet.blocks.base import Block


@dataclass(frozen=True)
class OnData:
    """A block on samples X (n, …), with so many outputs, read out so; mask (n, s): which tokens are there, None: all.

    What the data cost to look at is kept as long as this object is, not longer.
    """

    block: Block
    X: Tensor
    outputs: int
    readout: str = "mean"
    mask: Tensor | None = None

    @cached_property
    def groups(self) -> tuple[Rows, ...]:
        """The rows each group of neurons sees: one, but for blocks in groups."""
        p, q = self.block.weights(self.X, self.outputs)
        parts = self.block.split(self.X)
        outputs = self.outputs // len(parts)
        return tuple(Rows(self.block, X, outputs, self.readout, self.mask, p, q) for X in parts)

    @property
    def p(self) -> int:
        """The length of a row, and of a neuron's first layer."""
        return self.groups[0].p

    @property
    def q(self) -> int:
        """The length of a neuron's second layer."""
        return self.groups[0].q

    @property
    def rho(self) -> int:
        """Rows a sample has in each group."""
        return self.groups[0].rho

    @property
    def table(self) -> Table | None:
        """All rows written down, where the block can, and has one group."""
        return self.groups[0].table if len(self.groups) == 1 else None

    def open_gates(self) -> Gates:
        """Those of linear activation: one a group, and no vector."""
        B = len(self.groups)
        patterns = torch.ones(B, len(self.X), dtype=torch.bool)
        return Gates(None, patterns, torch.arange(B) if B > 1 else None)

    def operator(self, gates: Gates, scale: float) -> Operator:
        """That of X/scale behind these gates."""
        patterns = None if gates.vectors is None else gates.patterns
        if gates.group is None:
            return self.groups[0].operator(patterns, scale)
        parts = []
        for b in torch.unique(gates.group).tolist():
            own = torch.nonzero(gates.group == b).flatten()
            rows = self.groups[b]
            inner = rows.operator(None if patterns is None else patterns[own], scale)
            parts.append(Part(inner, own, slice(b * rows.outputs, (b + 1) * rows.outputs)))
        return GroupedOperator(parts, self.outputs)
