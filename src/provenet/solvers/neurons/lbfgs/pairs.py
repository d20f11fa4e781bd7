"""What steps have shown of the curvature: limited memory BFGS (Nocedal 1980), between two scales that may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from provenet.space import read

_CURVED = 1e-10  # of ‖s‖‖y‖: less says nothing of the curvature


class Pair(NamedTuple):
    """A step s, the change y of the gradient along it, both (N·w,), and sᵀy."""

    step: Tensor
    change: Tensor
    product: float


@dataclass(frozen=True)
class Pairs:
    """The last ``most`` pairs, the latest one last."""

    most: int
    known: tuple[Pair, ...] = ()

    def after(self, step: Tensor, change: Tensor) -> Pairs:
        """With one more, (N, w), where it shows positive curvature."""
        step, change = step.flatten(), change.flatten()
        norms = torch.linalg.vector_norm(step), torch.linalg.vector_norm(change)
        product, *sizes = read(torch.dot(step, change), *norms)
        if not product > _CURVED * sizes[0] * sizes[1]:
            return self
        return Pairs(self.most, (*self.known, Pair(step, change, product))[-self.most :])

    def direction(self, slope: Tensor, scales: Tensor) -> Tensor:
        """−H∇ by two loops; scales (N, w) are an inverse diagonal Hessian to begin from, right but for a factor.
        Nothing is read on the way: numbers that the loops multiply by stay where the vectors are."""
        rest, flat = slope.flatten().clone(), scales.flatten()
        parts = []
        for step, change, product in reversed(self.known):
            part = torch.dot(step, rest).div_(-product)
            rest.addcmul_(change, part)
            parts.append(part)
        rest.mul_(flat)
        if self.known:
            _, change, product = self.known[-1]
            rest.mul_(product / torch.dot(change, flat * change))
        for (step, change, product), part in zip(self.known, reversed(parts), strict=True):
            rest.addcmul_(step, torch.dot(change, rest).div_(product).add_(part), value=-1)
        return rest.neg_().view_as(slope)

    def carried(self, width: int, kept: Tensor, more: int, most: int) -> Pairs:
        """For the neurons ``kept`` (m,), of ``width`` weights, and ``more`` new ones of which nothing is known."""
        known: list[Pair] = []
        for pair in self.known[-most:]:
            step, change = (_padded(part.view(-1, width)[kept], more) for part in (pair.step, pair.change))
            product = float(torch.dot(step, change))
            if product > 0:
                known.append(Pair(step, change, product))
        return Pairs(most, tuple(known))

    def to(self, dtype: torch.dtype, most: int) -> Pairs:
        """In another precision, and no more than ``most`` of them."""
        last = self.known[-most:]
        return Pairs(most, tuple(Pair(step.to(dtype), change.to(dtype), sy) for step, change, sy in last))


def _padded(rows: Tensor, more: int) -> Tensor:
    return torch.cat([rows, rows.new_zeros(more, rows.shape[1])]).flatten()
