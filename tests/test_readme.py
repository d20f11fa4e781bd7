"""The examples of the README and of docs/relu.md are run; the README's print what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
EXAMPLE = re.compile(r"<!-- run: (\w+) -->\n```\w+\n(.*?)```.*?<!-- prints -->\n```text\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def examples() -> list[tuple[str, str, str]]:
    return EXAMPLE.findall(README.read_text())


def run(kind: str, code: str, folder: Path) -> str:
    command = [sys.executable, "-c", code] if kind == "python" else ["bash", "-ec", code]
    # the programs of the environment that runs the tests, on a page of fixed width
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = os.environ | {"PATH": path, "COLUMNS": "120"}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_same(printed: str, promised: str) -> None:
    """The same words; numbers alike, gaps and times at least of the same kind (they differ between machines)."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", promised).split()
    for line, said in zip(printed.splitlines(), promised.splitlines(), strict=True):
        for got, want in zip(NUMBER.findall(line), NUMBER.findall(said), strict=True):
            if "accuracy" not in line and any(word in line for word in ("gap", "bound", "neurons", "polar")):
                assert float(got) < 20 * max(float(want), 1e-9)
            elif "neurons" in line:
                assert float(got) == pytest.approx(float(want), rel=0.3 if float(want) >= 1 else 0.02)
            else:
                assert float(got) == pytest.approx(float(want), rel=2e-3)


def test_there_are_examples() -> None:
    assert [kind for kind, _, _ in examples()] == ["python", "python", "python", "sh"]


@pytest.mark.parametrize(("kind", "code", "promised"), examples(), ids=["python", "blocks", "relu", "sh"])
def test_example_prints_what_the_readme_says(kind: str, code: str, promised: str, tmp_path: Path) -> None:
    assert_same(run(kind, code, tmp_path), promised)


def test_the_examples_of_relu_run_without_a_warning(tmp_path: Path) -> None:
    """One after the other: later ones use what earlier ones made, and assert what the text says."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "relu.md").read_text(), re.DOTALL)
    assert sum("assert" in block for block in blocks) >= 3
    strict = "import warnings\nwarnings.simplefilter('error')\n"
    assert "50 all_arrangements certified" in run("python", strict + "\n".join(blocks), tmp_path)


def test_a_different_print_is_noticed() -> None:
    with pytest.raises(AssertionError):
        assert_same("primal 1.0\n", "primal 2.0\n")
    with pytest.raises(AssertionError):
        assert_same("certified\n", "not certified\n")
