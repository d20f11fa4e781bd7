"""How good outputs are, from sums over samples: so that it does not matter who has which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.layerwise.inputs import Inputs
from provenet.nn import TwoLayer
from provenet.ranks import Whole


class Score(ABC):
    """The larger, the better."""

    @abstractmethod
    def sums(self, said: Tensor, targets: Tensor) -> Tensor:
        """What adds up over samples, (k,) in float64."""

    @abstractmethod
    def of(self, sums: Tensor) -> float: ...


class Accuracy(Score):
    """The share of outputs (…, c) that are largest where the targets are."""

    def sums(self, said: Tensor, targets: Tensor) -> Tensor:
        hits = said.argmax(-1) == targets.argmax(-1)
        return torch.tensor([float(hits.sum()), float(hits.numel())], dtype=torch.float64)

    def of(self, sums: Tensor) -> float:
        return float(sums[0] / sums[1])


@dataclass(frozen=True)
class RSquared(Score):
    """1 − residual/variance of all outputs together; 0 where nothing varies.

    centre: about the mean of all targets (…, c), from which they are measured, so that a large one hides nothing.
    """

    centre: Tensor

    @staticmethod
    def on(targets: Tensor, shards: Whole) -> RSquared:
        """Of targets like these, (n, …, c)."""
        return RSquared(shards.add(targets[rows].sum(0) for rows in shards.slices) / shards.n)

    def sums(self, said: Tensor, targets: Tensor) -> Tensor:
        away = (targets.to(torch.float64) - self.centre).flatten(1)
        residual = (said.to(torch.float64) - targets.to(torch.float64)).square().sum()
        return torch.cat([torch.stack([residual, away.square().sum(), residual.new_tensor(len(away))]), away.sum(0)])

    def of(self, sums: Tensor) -> float:
        residual, squares, count = sums[:3].tolist()
        spread = squares - float(sums[3:].square().sum()) / count
        return 1 - residual / spread if spread > 0 else 0.0


@torch.no_grad()
def scored(network: TwoLayer, seen: Inputs, targets: Tensor, how: Score) -> float:
    """Of a network's outputs on what it sees of this process's samples, and the others of theirs."""
    pieces = zip(seen.by_piece(), seen.pieces, strict=True)
    return how.of(
        seen.shards.add(how.sums(torch.cat([network(x) for x in parts]), targets[rows]) for parts, rows in pieces)
    )
