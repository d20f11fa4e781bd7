"""The signs of many cones' rows, one cone a problem: copied, or, where rows are millions, picked out of one table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.space import Placed


@dataclass(frozen=True)
class PickedSigns(Placed):
    """table[gate] (B, N), of a table (P, N) of ±1, zero for rows that do not bound a cone; never as a whole."""

    table: Tensor
    gate: Tensor

    @staticmethod
    def of(table: Tensor) -> PickedSigns:
        return PickedSigns(table, torch.arange(len(table), device=table.device))

    def __len__(self) -> int:
        return len(self.gate)

    def __getitem__(self, which: Tensor | slice) -> PickedSigns:
        return replace(self, gate=self.gate[which])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.gate), self.table.shape[1]

    def within(self, span: slice) -> Tensor:
        """Of some rows in a row, (B, span)."""
        return self.table[:, span][self.gate]


Signs = Tensor | PickedSigns


def at(signs: Signs, which: Tensor, rows: Tensor) -> Tensor:
    """Of some cones (M,) these rows (M, m) of each."""
    if isinstance(signs, Tensor):
        return signs[which[:, None], rows]
    return signs.table[signs.gate[which][:, None], rows]


def some(signs: Signs, which: Tensor) -> Signs:
    """Of some cones (M,), in rising order; not copied where they are all, once each."""
    return signs if len(which) == len(signs) else signs[which]


def within(signs: Signs, span: slice) -> Tensor:
    """Of some rows in a row, (B, span)."""
    return signs[:, span] if isinstance(signs, Tensor) else signs.within(span)
