"""Gates as they are found: one a pattern, none that grazes a row, none closed everywhere."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from provenet.gates.sight import Seen
from provenet.ranks.context import anywhere, current, joined_digests

_DIGEST = 16  # bytes

Found = tuple[Tensor, Tensor]
"""Vectors (P, p) and their patterns (P, N) bool."""


class Sampled(NamedTuple):
    """The gates of each group, and the network whose units they are, if any: its layers (m, p) and (m, q) in the units
    of who was trained, and the group (m,) of each neuron."""

    groups: list[Found]
    network: tuple[Tensor, Tensor, Tensor] | None = None


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
        opened = anywhere(patterns.any(1))
        return self._keep(vectors, patterns, torch.nonzero(~torn & opened).flatten().tolist())

    def force(self, vectors: Tensor) -> None:
        """Whatever their patterns: where rounding decides all of them, any will do."""
        self._keep(vectors, self.rows.patterns(vectors)[0], list(range(len(vectors))))

    def _keep(self, vectors: Tensor, patterns: Tensor, candidates: list[int]) -> list[int]:
        taken: list[int] = []
        for k, key in zip(candidates, pattern_keys(patterns[candidates]), strict=True):
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
    first = {key: k for k, key in reversed(list(enumerate(pattern_keys(patterns))))}
    keep = sorted(first.values())
    return vectors[keep], patterns[keep]


def pattern_keys(patterns: Tensor) -> list[bytes]:
    """What tells patterns (m, N) from one another, and from others; if rows are spread over processes, over all."""
    own = [np.packbits(pattern.numpy()).tobytes() for pattern in patterns]
    if current() is None:
        return own
    return joined_digests([blake2b(key, digest_size=_DIGEST).digest() for key in own])
