"""Scores from sums: the same whoever has which samples."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import r2_score

from provenet.layerwise.scores import Accuracy, RSquared
from provenet.ranks import Whole

RNG = torch.Generator().manual_seed(0)
SAID = torch.randn(30, 3, generator=RNG, dtype=torch.float64)


def test_accuracy() -> None:
    targets = torch.eye(3, dtype=torch.float64)[torch.arange(30) % 3]
    parts = [Accuracy().sums(SAID[rows], targets[rows]) for rows in (slice(0, 0), slice(0, 7), slice(7, 30))]
    assert Accuracy().of(sum(parts)) == float((SAID.argmax(1) == torch.arange(30) % 3).double().mean())


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_r_squared(offset: float) -> None:
    """A large mean hides nothing."""
    targets = SAID + 0.5 * torch.randn(30, 3, generator=RNG, dtype=torch.float64) + offset
    score = RSquared.on(targets, Whole(30))
    parts = [score.sums(SAID[rows] + offset, targets[rows]) for rows in (slice(0, 0), slice(0, 7), slice(7, 30))]
    expected = r2_score(targets, SAID + offset, multioutput="variance_weighted")
    assert score.of(sum(parts)) == pytest.approx(expected, rel=1e-8)
    flat = torch.full((4, 1), 3.0, dtype=torch.float64)
    assert RSquared.on(flat, Whole(4)).of(RSquared.on(flat, Whole(4)).sums(flat + 1, flat)) == 0.0
