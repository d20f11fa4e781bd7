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


def alike(got: float, want: float, before: str, after: str) -> bool:
    """Whether a number may stand for another on another machine, by the words around it."""
    if re.match(r" (s|steps)\b", after):
        return True  # how long it took
    if re.search(r"(gap|bound) +$", before):
        return (
            0 <= got <= max(10 * want, 1e-4)
        )  # a step more or less makes it far smaller or larger, within what was asked
    if after.startswith(" neurons"):
        return abs(got - want) <= max(0.3 * want, 1)
    if before.endswith("accuracy "):
        return abs(got - want) <= 0.02
    if before.endswith(("objective ", "improved to ")):
        return got == pytest.approx(want, rel=0.02)  # where a training by Adam ends
    return got == pytest.approx(want, rel=1e-3)


def assert_same(printed: str, promised: str) -> None:
    """The same words, and numbers alike: a last digit, which differs between machines, does not matter."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", promised).split()
    for line, said in zip(printed.splitlines(), promised.splitlines(), strict=True):
        for got, want in zip(NUMBER.finditer(line), NUMBER.finditer(said), strict=True):
            before, after = said[: want.start()], said[want.end() :]
            assert alike(float(got[0]), float(want[0]), before, after), f"{line!r} for {said!r}"


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


@pytest.mark.parametrize(
    ("printed", "promised"),
    [
        ("primal 1.0901", "primal 1.0910"),  # a last digit and a few more
        ("gap       7.6e-05", "gap       1.2e-05"),
        ("relative gap 1e-12", "relative gap 8e-05"),
        ("16 neurons by apg in 700 steps, 0.77 s", "18 neurons by apg in 20 steps, 8.01 s"),
        ("test accuracy 0.965", "test accuracy 0.951"),
    ],
)
def test_what_may_differ(printed: str, promised: str) -> None:
    assert_same(printed, promised)


@pytest.mark.parametrize(
    ("printed", "promised"),
    [
        ("primal 1.09", "primal 1.10"),
        ("certified", "not certified"),
        ("gap       7.6e-04", "gap       7.5e-05"),
        ("relative gap -1e-05", "relative gap 8e-05"),
        ("16 neurons by apg in 700 steps", "26 neurons by apg in 700 steps"),
        ("16 neurons by apg in 700 steps", "16 neurons by bm in 700 steps"),
        ("test accuracy 0.965", "test accuracy 0.865"),
        ("status certified (relative gap ≤ 0.001 asked)", "status certified (relative gap ≤ 0.0001 asked)"),
    ],
)
def test_a_different_print_is_noticed(printed: str, promised: str) -> None:
    with pytest.raises(AssertionError):
        assert_same(printed, promised)
