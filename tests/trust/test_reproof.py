"""Random programs in float32, proven in float64, and proven again; `trust.reproof` has more of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trust import reproof


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_contradicted(seed: int) -> None:
    assert reproof.contradiction(seed) is None


@pytest.mark.filterwarnings("ignore")
def test_a_bound_that_is_too_good_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = reproof.solve_quietly

    def boasting(*args: Any, **more: Any) -> Any:
        found = solve(*args, **more)
        told = found.certificate
        return replace(found, certificate=replace(told, dual=told.dual + 0.5 * told.gap + 1e-6 * told.primal))

    monkeypatch.setattr(reproof, "solve_quietly", boasting)
    assert "the bound" in (reproof.contradiction(1) or "")
