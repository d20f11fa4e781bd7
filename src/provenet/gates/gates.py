"""The gates of a problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.variable import Factors


@dataclass(frozen=True)
class Gates:
    """vectors (P, p): None for linear activation, which has one open gate a group.  patterns (P, n·ρ) bool, all ones
    for linear activation.  group (P,): the group of features each gate sees, None where the block has one group.
    stretch: one open gate is all that the data need, its neurons so many times longer (`spike_free_stretch`).
    seconds: how long they took to find.  network: the ReLU network whose units they are, in the program's units, each
    neuron behind its gate; None where they are those of none.  left_out: how many in each group of features were asked
    for, and not looked for, as a time limit has no time for more.
    """

    vectors: Tensor | None
    patterns: Tensor
    group: Tensor | None = None
    stretch: float | None = None
    seconds: float = 0.0
    network: Factors | None = None
    left_out: int = 0

    @property
    def own(self) -> Tensor:
        """The group (P,) of each gate, whether the block has several or one."""
        return torch.zeros(len(self.patterns), dtype=torch.long) if self.group is None else self.group
