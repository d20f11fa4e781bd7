"""The example of a head trained by AdamW, certified and finished, on a small part of its data."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "finish_adamw.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = spec_from_file_location("finish_adamw", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["finish_adamw"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_bm_finishes_what_adamw_began(example: ModuleType, tmp_path: Path) -> None:
    settings = example.Settings(samples=150, heads=6, epochs=12, beta=10.0, looks=3)
    outcome = example.finish_adamw(settings)
    before, after = outcome.before, outcome.after
    assert before.relative_gap > settings.tol
    assert before.status == "not_certified"
    assert after.status == "certified"
    assert after.relative_gap <= settings.tol
    assert after.primal <= before.primal
    assert before.dual <= after.primal
    assert [moment.primal for moment in outcome.adamw] == sorted((m.primal for m in outcome.adamw), reverse=True)
    assert outcome.adamw[-1].primal == pytest.approx(before.primal, rel=1e-10)  # by the loader, and by the arrays
    assert all(share > 0.5 for share in outcome.accuracy)
    example.draw(outcome, settings, str(tmp_path / "picture.png"))
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
