"""Gates from random hyperplanes: D_k = 1{Φ h_k ≥ 0}, h_k Gaussian."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_ROUNDS = 20  # draws at most this many times the gates asked for

Opens = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Vectors (m, p) ↦ patterns (m, N) bool, and whether rounding decides somewhere in a pattern (m,) bool."""


def sample_gates(opens: Opens, p: int, count: int, seed: int | None) -> tuple[Tensor, Tensor]:
    """``count`` Gaussian gates with distinct, not all-zero patterns; fewer if there are fewer.

    Returns vectors (P, p) and patterns (P, N).  The draw depends on the seed and p only, so that repeating a row
    changes nothing.
    """
    generator = np.random.default_rng(seed)
    seen: set[bytes] = set()
    vectors: list[Tensor] = []
    found: list[Tensor] = []
    draw = torch.empty(0, p)
    for _ in range(_ROUNDS):
        draw = torch.from_numpy(generator.standard_normal((count, p)))
        pattern, torn = opens(draw)
        fresh = _fresh(pattern, torn, seen, count - len(seen))
        vectors.append(draw[fresh])
        found.append(pattern[fresh])
        if len(seen) == count:
            break
    if not seen:  # every draw missed all rows: the opposite of any of them opens at every row
        vectors, found = [-draw[:1]], [opens(-draw[:1])[0]]
    return (vectors[0], found[0]) if len(found) == 1 else (torch.cat(vectors), torch.cat(found))


def distinct_gates(vectors: Tensor, patterns: Tensor) -> tuple[Tensor, Tensor]:
    """One gate a pattern: doubles change neither the networks nor the optimum.

    A gate that is closed everywhere stays: a network may have neurons behind it.
    """
    first = {pattern_key(patterns[k]): k for k in reversed(range(len(patterns)))}
    keep = sorted(first.values())
    return vectors[keep], patterns[keep]


def _fresh(patterns: Tensor, torn: Tensor, seen: set[bytes], wanted: int) -> list[int]:
    """Patterns that are decided, not all zero and not yet ``seen``, at most ``wanted``; ``seen`` is updated."""
    keep: list[int] = []
    for k, pattern in enumerate(patterns):
        if len(keep) == wanted:
            break
        key = pattern_key(pattern)
        if key not in seen and bool(pattern.any()) and not bool(torn[k]):
            seen.add(key)
            keep.append(k)
    return keep


def pattern_key(pattern: Tensor) -> bytes:
    """What tells one pattern (N,) from another."""
    return np.packbits(pattern.numpy()).tobytes()
