"""Newton from a good guess, for losses of labels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Newton = tuple[Array, Array, Callable[[], float]]  # Σ w(p − y) and the step, both (c,); Σ w|p − y|, where asked for

_STEPS = 30
_LONG = 0.5  # ‖δ‖ beyond which a step is shortened
_SETTLED, _ROUNDED = 1e-16, 1e-15  # of all weights: what Σ w(p − y) is at the end, at best and at worst
_TOO_GOOD = 1e-4  # of all weights: below it Σ w|p − y| has lost digits to 1 − p


def newton_from(start: Array, newton: Callable[[Array], Newton], total: float) -> Array | None:
    """The b at which Σ w(p − y) = 0; None where the guess is none, or the fit is too good for p − y to have its digits.

    ``newton`` gives that sum, the step, and how to have Σ w|p − y|; total: the weight of all samples.  Along a step δ
    the curvature of these losses changes by no more than a factor e^‖δ‖, ‖δ‖ the largest difference of its entries (of
    one entry: its size), so that what is left of the sum after it is about ‖δ‖ times what there was: where that is
    settled the step is the last, and need not be looked at.  A long step is shortened to log(1 + ‖δ‖)/‖δ‖ of it, which
    by the same factor never ends above where it began."""
    b, before = start, math.inf
    for k in range(_STEPS):
        slope, step, wrong = newton(b)
        size = float(np.abs(slope).max())
        if size <= (_SETTLED if k else _ROUNDED) * total:  # a b that was the best before stays it, to the last bit
            return _unless_too_good(b, wrong, total)
        if not size < 0.5 * before:
            return _unless_too_good(b, wrong, total) if size <= _ROUNDED * total else None
        length = float(np.ptp(step)) if len(step) > 1 else float(np.abs(step).max())
        if length > _LONG:
            b, before = b - math.log1p(length) / length * step, math.inf
            continue
        b, before = b - step, size
        if 2 * float(np.abs(step).max()) * size <= _SETTLED * total:
            return _unless_too_good(b, wrong, total)
    return None


def _unless_too_good(b: Array, wrong: Callable[[], float], total: float) -> Array | None:
    return b if wrong() >= _TOO_GOOD * total else None
