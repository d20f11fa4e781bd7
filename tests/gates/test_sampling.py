"""Gates: seeded, distinct, never closed everywhere, and a matter of the seed alone."""

from __future__ import annotations

import numpy as np
import torch

from provenet import MLP
from provenet.gates.gaussian import sample_gates as sample_of_rows


def rows(n: int, p: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, p)))


def patterns(Phi: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    return MLP().on(Phi, 1).groups[0].patterns(vectors)[0]


def sample_gates(Phi: torch.Tensor, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return sample_of_rows(MLP().on(Phi, 1).groups[0], count, seed)


def test_patterns_are_distinct_and_open_somewhere() -> None:
    _, pattern = sample_gates(rows(20, 2), 30, seed=0)
    assert pattern.any(dim=1).all()
    assert torch.unique(pattern, dim=0).shape[0] == pattern.shape[0] == 30


def test_vectors_give_their_patterns() -> None:
    Phi = rows(15, 4)
    vectors, pattern = sample_gates(Phi, 12, seed=1)
    assert torch.equal(patterns(Phi, vectors), pattern)


def test_the_plane_has_only_so_many_patterns() -> None:
    """n lines through the origin cut the plane into 2n cones; one of them may close every row."""
    _, pattern = sample_gates(rows(5, 2), 500, seed=0)
    assert 5 <= pattern.shape[0] <= 10


def test_the_seed_decides_and_repeated_rows_change_nothing() -> None:
    Phi = rows(10, 3)
    first, _ = sample_gates(Phi, 6, seed=7)
    again, _ = sample_gates(Phi, 6, seed=7)
    other, _ = sample_gates(Phi, 6, seed=8)
    repeated, _ = sample_gates(torch.cat([Phi, Phi[:4]]), 6, seed=7)
    assert torch.equal(first, again)
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other)


def test_one_row_has_one_gate() -> None:
    vectors, pattern = sample_gates(rows(1, 3), 4, seed=0)
    assert vectors.shape == (1, 3)
    assert pattern.all()
