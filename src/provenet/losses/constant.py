"""The constant b (c,) that makes a loss over shards least, by sums over all of them, as processes exchange them.

`losses.shift` and `losses.softmax_shift` look at rows as they like, and have them all.  Here a look at some b costs one
exchange of c² + 2c numbers and one reading of them, and Newton, on the host, needs two or three from a good guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import deadline
from provenet.losses.base import Shiftable
from provenet.ranks import Whole

_STEPS, _HALVINGS = 120, 60
_AT_LEAST = 10  # steps that are taken even where there is no time: they are enough where predictions are moderate
_REACH = 50.0  # beyond predictions and targets: logarithms of how rare a class may be
_SETTLED = 1e-15  # of Σ|∇L| of a column: what is left of Σ ∇L where rounding ends it
_NOTHING = 1e-30  # of the largest column: a class without samples, whose b goes on for ever
_FLAT = 1e-12  # of the largest curvature: where there is less, a step goes as far as it may
_FAR = 1e-6  # of Σ|∇L|: a Σ∇L that is not for want of digits
_HIDDEN = 1e-15  # of the loss: a difference that rounding hides


@dataclass(frozen=True)
class _At:
    """Σ ∇L(Ŷ + 1bᵀ) and Σ |∇L| (c,), 1ᵀ∇²L1 (c, c), over the rows of all processes."""

    b: Tensor
    slope: Tensor
    sizes: Tensor
    across: Tensor

    @property
    def off(self) -> float:
        """How far from the best: the largest slope, of what there is of it."""
        return float((self.slope.abs() / self.sizes.clamp_min(torch.finfo(self.sizes.dtype).tiny)).max())

    @property
    def settled(self) -> bool:
        least = torch.maximum(_SETTLED * self.sizes, _NOTHING * self.sizes.max())
        return bool((self.slope.abs() <= least).all())

    def step(self, reach: float) -> Tensor:
        """Newton's, no entry longer than ``reach``: where the loss is flat there is no telling how far to go."""
        bent = (self.across + self.across.T) / 2
        bent.diagonal().clamp_(min=_FLAT * float(bent.diagonal().max()) + torch.finfo(bent.dtype).tiny)
        found = torch.linalg.pinv(bent, hermitian=True, rtol=1e-2 * _FLAT) @ -self.slope
        return found.nan_to_num(0.0).clamp(-reach, reach)

    def downhill(self, reach: float) -> Tensor:
        """Against the slope, its longest entry ``reach``."""
        return -self.slope * (reach / self.slope.abs().max())


def best_constant(parts: Sequence[Shiftable], rows: Sequence[Tensor], shards: Whole, start: Tensor) -> Tensor:
    """argmin_b Σ_s L_s(Ŷ_s + 1bᵀ) for predictions (r_s, c) in shards; the same to the last bit in every process,
    however many there are, as they agree on the time left.  A ``start`` that is the best already is returned as it is;
    a b that a deadline leaves short of the best is a worse one, no wrong one."""
    c = len(start)

    def each(make: Callable[[Shiftable, Tensor], Tensor], b: Tensor) -> Tensor:
        there = b.to(start.device)
        return shards.add(make(part, own + there) for part, own in zip(parts, rows, strict=True)).cpu()

    def look(b: Tensor) -> _At:
        slope, sizes, across = each(_sums, b).split([c, c, c * c])
        return _At(b, slope, sizes, across.view(c, c))

    def better(ahead: _At, at: _At) -> bool:
        """A slope of less than half; where it is not, a lower loss, or a lower slope if rounding hides that."""
        if ahead.off < 0.5 * at.off:
            return True
        there, here = (float(each(lambda part, z: part.value(z), one.b)) for one in (ahead, at))
        hidden = _HIDDEN * abs(here)
        return there < here - hidden or (there <= here + hidden and ahead.off < at.off)

    at = look(start.cpu())
    if at.settled:
        return start
    sizes = [values.abs().max() for values in (*rows, *(part.target for part in parts))]
    largest = float(torch.stack(sizes).max())
    reach = _REACH + 2 * shards.largest(largest)
    if float(at.b.abs().max()) > reach:  # the guess is of other predictions: from there it may be too far
        zero = look(torch.zeros_like(at.b))
        at = zero if better(zero, at) else at

    def along(at: _At, step: Tensor) -> _At | None:
        """As far along a step as is better, by halves; None where nothing is."""
        tried = (look(at.b + step * 0.5**k) for k in range(_HALVINGS))
        return next((ahead for ahead in tried if better(ahead, at)), None)

    for k in range(_STEPS):
        if k >= _AT_LEAST and deadline.over():
            break
        ahead = along(at, at.step(reach))
        if ahead is None and at.off > _FAR:  # where probabilities are 0 and 1, rounding bends, and not even upwards
            ahead = along(at, at.downhill(reach))
        if ahead is None:
            break  # rounding has the last word
        at = ahead
        if at.settled:
            break
    return at.b.to(start.device)


def _sums(part: Shiftable, prediction: Tensor) -> Tensor:
    slope = part.gradient(prediction)
    return torch.cat([slope.sum(0), slope.abs().sum(0), part.across(prediction).flatten()])
