"""A loss over samples in shards, those of other processes among them: what is a sum is of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.losses.base import Loss, Shiftable
from provenet.losses.constant import best_constant
from provenet.losses.shift import close_centre
from provenet.ranks import Spread, Whole


class RankedLoss(Loss):
    """parts: the loss of each of this process's shards, in their order.

    Predictions, dual points and all that is row by row are of this process's samples; values, conjugates and all other
    numbers of those of all.
    """

    def __init__(self, parts: Sequence[Loss], shards: Spread):
        super().__init__(torch.cat([part.target for part in parts]), torch.cat([part.sample_weight for part in parts]))
        first = parts[0]
        self.parts, self._shards = tuple(parts), shards
        self.name, self.quadratic, self.kink, self.curvature = first.name, first.quadratic, first.kink, first.curvature

    @staticmethod
    def of(loss: Loss, shards: Spread) -> RankedLoss:
        """Of a loss of this process's samples."""
        parts = [loss.some(rows) for rows in shards.slices]
        shiftable = [part for part in parts if isinstance(part, Shiftable)]
        return RankedShiftable(shiftable, shards) if shiftable else RankedLoss(parts, shards)

    @property
    def shards(self) -> Whole:
        return self._shards

    def pieces(self, values: Tensor) -> list[Tensor]:
        return list(values.split([len(part.target) for part in self.parts], dim=values.ndim - self.target.ndim))

    def value(self, prediction: Tensor) -> Tensor:
        return self.shards.add(part.value(rows) for part, rows in zip(self.parts, self.pieces(prediction), strict=True))

    def gradient(self, prediction: Tensor) -> Tensor:
        return torch.cat([part.gradient(rows) for part, rows in zip(self.parts, self.pieces(prediction), strict=True)])

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        pieces = zip(self.parts, self.pieces(prediction), self.pieces(direction), strict=True)
        bent = [part.hessian_product(rows, along) for part, rows, along in pieces]
        return torch.cat(bent, dim=direction.ndim - self.target.ndim)

    def conjugate(self, dual: Tensor) -> Tensor:
        own = [part.conjugate(rows) for part, rows in zip(self.parts, self.pieces(dual), strict=True)]
        total = self.shards.add(value.detach().clone() for value in own)
        if not any(value.requires_grad for value in own):
            return total
        total_of_all: Tensor = _Known.apply(torch.stack(own).sum(), total)
        return total_of_all

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        steps = self.pieces(step) if isinstance(step, Tensor) and step.ndim else [step] * len(self.parts)
        pieces = zip(self.parts, self.pieces(point), steps, strict=True)
        return torch.cat([part.prox(rows, by) for part, rows, by in pieces])

    def local_curvature(self, prediction: Tensor) -> Tensor:
        pieces = zip(self.parts, self.pieces(prediction), strict=True)
        return torch.cat([part.local_curvature(rows) for part, rows in pieces])

    def admissible(self, dual: Tensor) -> Tensor:
        return torch.cat([part.admissible(rows) for part, rows in zip(self.parts, self.pieces(dual), strict=True)])

    def dual_at(self, prediction: Tensor) -> Tensor:
        return torch.cat([part.dual_at(rows) for part, rows in zip(self.parts, self.pieces(prediction), strict=True)])

    def dual_sums(self, dual: Tensor) -> Tensor:
        own = [part.dual_sums(rows) for part, rows in zip(self.parts, self.pieces(dual), strict=True)]
        return self.shards.add(own) if own[0].numel() else own[0]

    def scale_by(self, sums: Tensor, largest: float) -> float:
        return self.parts[0].scale_by(sums, largest)

    def some(self, rows: slice) -> Loss:
        return self.parts[0].with_data(self.target[rows], self.sample_weight[rows])

    def with_data(self, target: Tensor, weight: Tensor | None) -> Loss:  # type: ignore[override]  # see below
        """Of the same samples as of old; of others it is a loss of these alone."""
        if len(target) != len(self.target):
            return self.parts[0].with_data(target, weight)
        weights = [None] * len(self.parts) if weight is None else self._cut(weight)
        cut = zip(self.parts, self._cut(target), weights, strict=True)
        return type(self)([part.with_data(own, w) for part, own, w in cut], self._shards)

    def _cut(self, rows: Tensor) -> list[Tensor]:
        """Rows (n', …) of every shard."""
        return list(rows.split([len(part.target) for part in self.parts]))

    def alone(self, target: Tensor, weight: Tensor, there: Tensor | None) -> Loss:
        return self.parts[0].with_data(target, weight)

    def scaled(self, scale: float) -> Self:
        return type(self)([part.scaled(scale) for part in self.parts], self._shards)

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


class RankedShiftable(RankedLoss, Shiftable):
    """The same, where the loss can have a free intercept."""

    parts: tuple[Shiftable, ...]

    def flat(self, there: Tensor | None) -> RankedShiftable:
        present = [None] * len(self.parts) if there is None else self._cut(there)
        return RankedShiftable([part.flat(own) for part, own in zip(self.parts, present, strict=True)], self._shards)

    def centre(self) -> Tensor:
        if self.parts[0].measures:
            return close_centre(self.parts, self.shards)
        return super().centre()

    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        return best_constant(self.parts, self.pieces(prediction), self.shards, start)

    def across(self, prediction: Tensor) -> Tensor:
        pieces = zip(self.parts, self.pieces(prediction), strict=True)
        return self.shards.add(part.across(rows) for part, rows in pieces)

    def balanced(self, dual: Tensor) -> Tensor:
        return torch.cat(self.balanced_together(self.parts, self.pieces(dual), self.shards))

    def balanced_together(self, parts: Sequence[Any], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        return self.parts[0].balanced_together(parts, duals, shards)


class _Known(torch.autograd.Function):
    """A sum over all processes, whose slope by this process's part is one."""

    @staticmethod
    def forward(_: Any, own: Tensor, total: Tensor) -> Tensor:
        return total.clone()

    @staticmethod
    def backward(_: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0], None
