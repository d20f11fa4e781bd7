"""Samples that are equal, found by a number of what each holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2**22  # numbers that are looked at together, so that no copy of all of them is made


def digests(*parts: Any) -> NDArray[np.uint64]:
    """A number (n,) of each sample: the same for those that are equal in all parts, arrays (n, …) or None."""
    held = [np.asarray(part).reshape(len(part), -1) for part in parts if part is not None]
    rows = max(1, _AT_ONCE // max(sum(part.shape[1] for part in held), 1))
    n = len(held[0])
    return np.concatenate([_digest([part[i : i + rows] for part in held]) for i in range(0, n, rows)])


def _digest(parts: list[NDArray[Any]]) -> NDArray[np.uint64]:
    values = [part.astype(np.float64) + 0.0 for part in parts]  # −0.0 is 0.0
    bits = np.concatenate(values, axis=1).view(np.uint64)
    odd = np.random.default_rng(0).integers(0, 2**63, bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (bits ^ (bits >> np.uint64(32))) * odd
    return np.asarray((mixed ^ (mixed >> np.uint64(29))).sum(1))
