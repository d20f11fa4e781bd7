"""Newton from a good guess, for losses of labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Newton = tuple[Array, Array, Callable[[], float]]  # Σ w(p − y) and the step, both (c,); Σ w|p − y|, where asked for

_FEW = 2**15  # numbers
_STEPS = 30
_LONG = 0.5  # ‖δ‖ beyond which a step is shortened
_SETTLED, _ROUNDED = 1e-16, 1e-15  # of all weights: what Σ w(p − y) is at the end, at best and at worst
_TOO_GOOD = 1e-4  # of all weights: below it Σ w|p − y| has lost digits to 1 − p


@dataclass(frozen=True)
class Rows:
    """Where a search looks at rows.  Few are read by the host, once, which takes no longer than to read their sums, and
    numpy is quicker with them; many stay where they are, and sums over them are read, look by look."""

    few: bool
    device: torch.device

    @staticmethod
    def of(values: Tensor) -> Rows:
        return Rows(values.numel() <= _FEW, values.device)

    def seen(self, values: Tensor) -> Any:
        """Values of rows, where they are looked at."""
        return self.host(values) if self.few else values

    def there(self, numbers: Array) -> Any:
        """Some numbers of the host's, to work on rows with."""
        return numbers if self.few else torch.from_numpy(numbers).to(self.device)

    @staticmethod
    def host(values: Any) -> Array:
        """Numbers as the host's."""
        return values.cpu().numpy() if isinstance(values, Tensor) else values

    def together(self, *sums: Any) -> list[Array]:
        """Sums of one shape as the host's, by a single reading."""
        return list(sums) if self.few else list(self.host(torch.stack(sums)))

    def exp(self, values: Any) -> Any:
        return np.exp(values) if self.few else torch.exp(values)

    @staticmethod
    def highest(values: Any) -> Any:
        """(c, r) → (r,)."""
        return values.amax(0) if isinstance(values, Tensor) else values.max(0)


class Labels(NamedTuple):
    """What a search for b needs of targets (r, c) and weights (r, 1): weights (r,) and w·y by class (c, r), where rows
    are looked at; the weight of each class (c,), and of all."""

    rows: Rows
    weight: Any
    wanted: Any
    mass: Array
    total: float

    @staticmethod
    def of(target: Tensor, weight: Tensor) -> Labels:
        rows, wanted = Rows.of(target), (target * weight).T.to(torch.float64).contiguous()
        mass = wanted.sum(1).cpu().numpy()
        return Labels(rows, rows.seen(weight.flatten()), rows.seen(wanted), mass, float(weight.sum()))


def newton_from(guess: Tensor, newton: Callable[[Array], Newton], total: float) -> Tensor | None:
    """The b (c,) at which Σ w(p − y) = 0; None where the guess is none, or the fit is too good for p − y to have its
    digits.  What is decided here is decided by the host, which knows how far b is from the guess, and no rows.

    ``newton`` gives, so far from the guess, that sum, the step, and how to have Σ w|p − y|; total: the weight of all
    samples.  Along a step δ the curvature of these losses changes by no more than a factor e^‖δ‖, ‖δ‖ the largest
    difference of its entries (of one entry: its size), so that what is left of the sum after it is about ‖δ‖ times what
    there was: where that is settled the step is the last, and need not be looked at.  A long step is shortened to
    log(1 + ‖δ‖)/‖δ‖ of it, which by the same factor never ends above where it began."""
    far, before = np.zeros(len(guess)), math.inf
    for k in range(_STEPS):
        slope, step, wrong = newton(far)
        size = float(np.abs(slope).max())
        if size <= (_SETTLED if k else _ROUNDED) * total:  # a b that was the best before stays it, to the last bit
            return _unless_too_good(guess, far, wrong, total)
        if not size < 0.5 * before:
            return _unless_too_good(guess, far, wrong, total) if size <= _ROUNDED * total else None
        length = float(np.ptp(step)) if len(step) > 1 else float(np.abs(step).max())
        if length > _LONG:
            far, before = far - math.log1p(length) / length * step, math.inf
            continue
        far, before = far - step, size
        if 2 * float(np.abs(step).max()) * size <= _SETTLED * total:
            return _unless_too_good(guess, far, wrong, total)
    return None


def _unless_too_good(guess: Tensor, far: Array, wrong: Callable[[], float], total: float) -> Tensor | None:
    return guess + torch.from_numpy(far).to(guess.device) if wrong() >= _TOO_GOOD * total else None
