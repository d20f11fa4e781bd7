"""Every arrangement, once: Cover's count in general position, the known counts of reflection arrangements."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from provenet.gates.arrangements import arrangements, count_bound


def gaussian(n: int, d: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 1), (25, 2), (9, 3), (40, 3), (12, 4), (9, 5), (10, 7), (4, 9)])
def test_general_position_has_covers_count(n: int, d: int) -> None:
    rows = gaussian(n, d, seed=n)
    vectors, pattern = arrangements(rows)
    assert len(pattern) == count_bound(n, min(n, d))
    assert torch.unique(pattern, dim=0).shape == pattern.shape
    assert torch.equal((rows @ vectors.T > 0).T, pattern)


def test_the_planar_data_of_the_papers_has_fifty() -> None:
    assert len(arrangements(gaussian(25, 2))[1]) == 50


def roots(kind: str, n: int) -> torch.Tensor:
    """Normals e_i − e_j (kind A), with e_i + e_j and e_i as well (kind B)."""
    eye = np.eye(n)
    rows = [eye[i] - eye[j] for i, j in combinations(range(n), 2)]
    if kind == "B":
        rows += [eye[i] + eye[j] for i, j in combinations(range(n), 2)] + list(eye)
    return torch.from_numpy(np.array(rows))


@pytest.mark.parametrize(("kind", "n", "cells"), [("A", 3, 6), ("A", 4, 24), ("A", 5, 120), ("B", 2, 8), ("B", 3, 48)])
def test_reflection_arrangements_have_a_cell_for_each_reflection(kind: str, n: int, cells: int) -> None:
    """Far from general position: many hyperplanes share a line."""
    assert len(arrangements(roots(kind, n))[1]) == cells


def test_repeated_opposite_and_zero_rows_cut_nothing_new() -> None:
    rows = gaussian(6, 3)
    more = torch.cat([rows, 2 * rows[:2], -rows[3:4], torch.zeros(1, 3, dtype=rows.dtype)])
    _, plain = arrangements(rows)
    _, pattern = arrangements(more)
    assert len(pattern) == len(plain)
    assert torch.equal(pattern[:, 6:8], pattern[:, :2])
    assert torch.equal(pattern[:, 8], ~pattern[:, 3])
    assert pattern[:, 9].all()


def test_sampled_patterns_are_among_them() -> None:
    rows = gaussian(15, 3)
    _, pattern = arrangements(rows)
    known = {row.numpy().tobytes() for row in pattern}
    draws = rows @ gaussian(3, 500, seed=1) >= 0
    assert all(column.contiguous().numpy().tobytes() in known for column in draws.T)


def test_data_of_low_rank_in_many_dimensions() -> None:
    rows = gaussian(20, 2) @ gaussian(2, 30, seed=1)
    assert len(arrangements(rows)[1]) == 40


def test_too_many_are_refused_with_their_number() -> None:
    with pytest.raises(ValueError, match=r"gates: 'all' would enumerate up to .* sample some"):
        arrangements(gaussian(200, 10))
