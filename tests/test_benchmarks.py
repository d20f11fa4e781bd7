"""`make bench` runs the parts it is asked for, and says what it is doing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def bench(*parts: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    what = ["-m", "benchmarks", *parts] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *what], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_parts_that_there_are_not_are_refused() -> None:
    done = bench("gated", "everything")
    assert done.returncode == 2
    assert "everything: unknown; the parts are gated, relu" in done.stderr


def test_each_row_is_announced_and_printed() -> None:
    """One row of the cheapest kind, in place of a part."""
    code = """
from itertools import islice
from benchmarks import __main__ as bench, rows
bench.PARTS = {"one": bench._compare(lambda: islice(rows.relu_every_arrangement(), 1))}
bench.main()
"""
    done = bench(code=code)
    assert done.returncode == 0, done.stderr
    part, row = done.stderr.splitlines()
    assert re.fullmatch(r"\[  0:\d\d\] part one", part)  # a busy machine may need seconds for the imports
    assert row.endswith("arrangements, β = 0.01: auto")
    header, first, _ = done.stdout.splitlines()
    assert header.startswith("problem")
    assert first.startswith("ReLU 25 × 2")
    assert first.endswith(("yes", "NO"))
