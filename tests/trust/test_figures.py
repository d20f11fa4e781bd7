"""A small part of `make trust`: each figure on some of its cases."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from trust import oracle, repeats
from trust.figures import FIGURES
from trust.forks import told_by
from trust.records import tried

pytestmark = pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
ROOT = Path(__file__).parents[2]
OF_ITS_OWN = {"repeats"}  # processes that import everything are not for every day


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in FIGURES if name not in OF_ITS_OWN])
def test_nothing_is_wrong(name: str, tmp_path: Path) -> None:
    figure = FIGURES[name]
    with figure.ready(tmp_path) as attempt:
        seen = [tried(attempt, case) for case in range(1, 1 + figure.small)]
    assert [each.wrong for each in seen if each.wrong is not None] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [618, 2493, 3114])
def test_neurons_in_the_corners_of_their_cones(case: int) -> None:
    """Every first layer in a corner: a Newton step has no column of one."""
    assert tried(oracle.attempt, case).wrong is None


def test_two_processes_find_the_same_bits() -> None:
    def work(say: object) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(repeats.CODE, {})
        say(printed.getvalue().strip())  # type: ignore[operator]

    first, second = told_by(work), told_by(work)
    assert len(first[0]) == 64
    assert first == second


def test_a_figure_that_is_unknown_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trust", "everything"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "everything: unknown; the figures are damage," in done.stderr
