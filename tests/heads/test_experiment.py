"""The comparison with what is usually trained: what it needs, and what its rivals are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.heads.samples import Samples, Split
from provenet.reproduce.rivals import MODULES, Grid, Parts, adamw, logistic


def test_missing_data_say_where_they_are_and_the_commands(tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["reproduce", "heads-cifar100", "--out", str(tmp_path)])
    assert missing.exit_code == 1
    assert "cs.toronto.edu" in missing.stderr
    assert "provenet embed cifar-100-binary --backbone efficientnet-lite2" in missing.stderr
    pn.embed(lambda x: x.flatten(2), np.ones((3, 1, 2, 2)), tmp_path / "e", y=[0, 1, 0])
    partly = CliRunner().invoke(app, ["reproduce", "heads-cifar100", "--data", str(tmp_path / "e")])
    assert "no test part" in partly.stderr


def parts() -> Parts:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 160)
    X = rng.standard_normal((160, 3, 4)).astype(np.float32) + 3.0 * y[:, None, None].astype(np.float32)
    whole = Samples(X[:120], y[:120], None)
    splits = tuple(Split(np.delete(np.arange(120), judge), judge) for judge in np.arange(120).reshape(2, 60))
    return Parts(whole, splits, Samples(X[120:], y[120:], None), None, 2)


def test_rivals_learn_what_is_easy() -> None:
    grid = Grid(rates=(1e-2,), decays=(1e-2,), seeds=2, epochs=12, penalties=(1.0,), batch=20)
    assert min(logistic(parts(), grid)["test"]) > 0.9
    for kind in MODULES:
        found = adamw(kind, parts(), grid)
        assert min(found["test"]) > 0.9
        assert found["runs"] == 4


@pytest.mark.parametrize("kind", ["attention"])
def test_tokens_that_are_not_there_do_not_count(kind: str) -> None:
    torch.manual_seed(0)
    head = MODULES[kind](4, 8, 3).eval()
    x, mask = torch.randn(2, 4, 8), torch.tensor([[True, True, False, False], [True, True, True, True]])
    other = x.clone()
    other[0, 2:] = 7.0
    assert torch.allclose(head(x, mask), head(other, mask), atol=1e-6)
