"""The papers' rank conditions hold at every gate or not at all (BM Thm 3.3, 3.5)."""

from __future__ import annotations

import torch

from provenet.certificates.conditions import rank_conditions
from provenet.variable import Factors


def factors(p: int, q: int, widths: list[int], seed: int = 0) -> Factors:
    generator = torch.Generator().manual_seed(seed)
    gate = torch.repeat_interleave(torch.arange(len(widths)), torch.tensor(widths))
    left = torch.randn(len(gate), p, generator=generator, dtype=torch.float64)
    right = torch.randn(len(gate), q, generator=generator, dtype=torch.float64)
    return Factors(left, right, gate)


def test_wide_blocks_are_wide_and_deficient() -> None:
    found = rank_conditions(factors(2, 3, [6, 6]), 2, 2, 3)
    assert found == {"wide_enough": True, "rank_deficient": True, "full_rank": True}


def test_full_rank_blocks() -> None:
    found = rank_conditions(factors(2, 3, [2, 3]), 2, 2, 3)
    assert found == {"wide_enough": False, "rank_deficient": False, "full_rank": True}


def test_one_thin_gate_spoils_all() -> None:
    found = rank_conditions(factors(2, 3, [6, 1]), 2, 2, 3)
    assert found == {"wide_enough": False, "rank_deficient": False, "full_rank": False}


def test_a_gate_without_neurons_satisfies_nothing() -> None:
    found = rank_conditions(factors(2, 3, [6, 0, 6]), 3, 2, 3)
    assert not any(found.values())


def test_doubled_neurons_are_deficient() -> None:
    once = factors(3, 3, [2])
    twice = Factors.join(once, once)
    assert rank_conditions(twice, 1, 3, 3)["rank_deficient"]
    assert not rank_conditions(once, 1, 3, 3)["rank_deficient"]
