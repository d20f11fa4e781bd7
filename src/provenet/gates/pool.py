"""Gates as they are found: one a pattern, none that grazes a row, none closed everywhere."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from provenet.gates.sight import Seen

Found = tuple[Tensor, Tensor]
"""Vectors (P, p) and their patterns (P, N) bool."""


class Pool:
    """Up to ``count`` gates on the rows of one group, in the order in which they came."""

    def __init__(self, rows: Seen, count: int):
        self.rows = rows
        self.count = count
        self._known: set[bytes] = set()
        self._vectors: list[Tensor] = []
        self._patterns: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._known)

    @property
    def missing(self) -> int:
        return self.count - len(self)

    def add(self, vectors: Tensor) -> list[int]:
        """Which of the vectors (m, p) came in: those with a pattern that rounding does not decide, that is open
        somewhere, and that no earlier one has."""
        if len(vectors) == 0 or self.missing == 0:
            return []
        patterns, torn = self.rows.patterns(vectors)
        return self._keep(vectors, patterns, torch.nonzero(~torn & patterns.any(1)).flatten().tolist())

    def force(self, vectors: Tensor) -> None:
        """Whatever their patterns: where rounding decides all of them, any will do."""
        self._keep(vectors, self.rows.patterns(vectors)[0], list(range(len(vectors))))

    def _keep(self, vectors: Tensor, patterns: Tensor, candidates: list[int]) -> list[int]:
        taken: list[int] = []
        for k in candidates:
            key = pattern_key(patterns[k])
            if key not in self._known and self.missing:
                self._known.add(key)
                taken.append(k)
        self._vectors.append(vectors[taken])
        self._patterns.append(patterns[taken])
        return taken

    @property
    def found(self) -> Found:
        if len(self._vectors) == 1:
            return self._vectors[0], self._patterns[0]
        return torch.cat(self._vectors), torch.cat(self._patterns)


def distinct_gates(vectors: Tensor, patterns: Tensor) -> Found:
    """One gate a pattern: doubles change neither the networks nor the optimum.

    A gate that is closed everywhere stays: a network may have neurons behind it.
    """
    first = {pattern_key(patterns[k]): k for k in reversed(range(len(patterns)))}
    keep = sorted(first.values())
    return vectors[keep], patterns[keep]


def pattern_key(pattern: Tensor) -> bytes:
    """What tells one pattern (N,) from another."""
    return np.packbits(pattern.numpy()).tobytes()
