"""A loss over samples in shards, those of other processes among them: what is a sum is of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from provenet.losses.base import Loss
from provenet.ranks import Spread


class RankedLoss(Loss):
    """parts: the loss of each of this process's shards, in their order.

    Predictions, dual points and all that is row by row are of this process's samples; values, conjugates and all other
    numbers of those of all.
    """

    def __init__(self, parts: Sequence[Loss], shards: Spread):
        super().__init__(torch.cat([part.target for part in parts]), torch.cat([part.sample_weight for part in parts]))
        first = parts[0]
        self.parts, self.shards = tuple(parts), shards
        self.name, self.quadratic, self.kink, self.curvature = first.name, first.quadratic, first.kink, first.curvature

    @staticmethod
    def of(loss: Loss, shards: Spread) -> RankedLoss:
        """Of a loss of this process's samples."""
        return RankedLoss([loss.some(rows) for rows in shards.slices], shards)

    def _rows(self, values: Tensor) -> list[Tensor]:
        """Values (…, n', …, c) of every shard."""
        dim = values.ndim - self.target.ndim
        return [values.narrow(dim, rows.start, rows.stop - rows.start) for rows in self.shards.slices]

    def value(self, prediction: Tensor) -> Tensor:
        return self.shards.add(part.value(rows) for part, rows in zip(self.parts, self._rows(prediction), strict=True))

    def gradient(self, prediction: Tensor) -> Tensor:
        return torch.cat([part.gradient(rows) for part, rows in zip(self.parts, self._rows(prediction), strict=True)])

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        pieces = zip(self.parts, self._rows(prediction), self._rows(direction), strict=True)
        bent = [part.hessian_product(rows, along) for part, rows, along in pieces]
        return torch.cat(bent, dim=direction.ndim - self.target.ndim)

    def conjugate(self, dual: Tensor) -> Tensor:
        own = [part.conjugate(rows) for part, rows in zip(self.parts, self._rows(dual), strict=True)]
        total = self.shards.add(value.detach().clone() for value in own)
        if not any(value.requires_grad for value in own):
            return total
        total_of_all: Tensor = _Known.apply(torch.stack(own).sum(), total)
        return total_of_all

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        steps = self._rows(step) if isinstance(step, Tensor) and step.ndim else [step] * len(self.parts)
        pieces = zip(self.parts, self._rows(point), steps, strict=True)
        return torch.cat([part.prox(rows, by) for part, rows, by in pieces])

    def local_curvature(self, prediction: Tensor) -> Tensor:
        pieces = zip(self.parts, self._rows(prediction), strict=True)
        return torch.cat([part.local_curvature(rows) for part, rows in pieces])

    def admissible(self, dual: Tensor) -> Tensor:
        return torch.cat([part.admissible(rows) for part, rows in zip(self.parts, self._rows(dual), strict=True)])

    def dual_at(self, prediction: Tensor) -> Tensor:
        return torch.cat([part.dual_at(rows) for part, rows in zip(self.parts, self._rows(prediction), strict=True)])

    def dual_sums(self, dual: Tensor) -> Tensor:
        own = [part.dual_sums(rows) for part, rows in zip(self.parts, self._rows(dual), strict=True)]
        return self.shards.add(own) if own[0].numel() else own[0]

    def scale_by(self, sums: Tensor, largest: float) -> float:
        return self.parts[0].scale_by(sums, largest)

    def some(self, rows: slice) -> Loss:
        return self.parts[0].with_data(self.target[rows], self.sample_weight[rows])

    def with_data(self, target: Tensor, weight: Tensor | None) -> Loss:  # type: ignore[override]  # see below
        """Of the same samples as of old; of others it is a loss of these alone."""
        plain = self.parts[0].with_data(target, weight)
        return RankedLoss.of(plain, self.shards) if len(target) == len(self.target) else plain

    def scaled(self, scale: float) -> RankedLoss:
        return RankedLoss([part.scaled(scale) for part in self.parts], self.shards)

    def settings(self) -> dict[str, Any]:
        return self.parts[0].settings()

    def unit(self, largest: float) -> float:
        return self.parts[0].unit(largest)

    @property
    def largest_target(self) -> float:
        return self.shards.largest(super().largest_target)

    @property
    def largest_weight(self) -> float:
        return self.shards.largest(super().largest_weight)


class _Known(torch.autograd.Function):
    """A sum over all processes, whose slope by this process's part is one."""

    @staticmethod
    def forward(_: Any, own: Tensor, total: Tensor) -> Tensor:
        return total.clone()

    @staticmethod
    def backward(_: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0], None
