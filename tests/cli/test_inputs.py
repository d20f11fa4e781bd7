"""A path that is not there is told at once: before torch and the rest, which take seconds to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provenet.cli.commands import COMMANDS, _imported
from provenet.cli.inputs import INPUTS, OPTIONS, Missing, check_inputs

MISSING = [
    ("fit", "gone.csv", "--target", "y"),
    ("fit", "--target", "y", "gone.csv"),
    ("fit", "--target=y", "gone.csv"),
    ("fit", "-t", "-1", "gone.csv"),
    ("fit", "--", "gone.csv"),
    ("path", "gone.csv"),
    ("predict", "here", "gone.csv"),
    ("certify", "gone.csv", "here"),
    ("export", "gone.csv"),
    ("embed", "gone.csv", "--backbone", "all-minilm"),
    ("embed", "here", "--like", "gone.csv"),
    ("head", "gone.csv"),
    ("head", "here", "--judge=gone.csv"),
    ("layerwise", "gone.csv"),
]
FINE = [
    ("fit", "here"),
    ("fit", "-"),
    ("fit", "here", "--out", "gone"),  # what is written need not be there
    ("fit", "--drop", "gone", "here"),  # a name, not a path
    ("fit", "gone.csv", "--help"),
    ("fit", "here", "gone.csv"),  # too many: the parser says so
    ("export", "here", "-o", "gone.onnx"),
    ("reproduce", "norm-ball"),
    ("demo", "--out", "gone"),
]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("a,b\n1,2\n")


@pytest.mark.parametrize("line", MISSING, ids=" ".join)
def test_what_is_missing_is_named(line: tuple[str, ...]) -> None:
    with pytest.raises(Missing, match=r"^gone\.csv: there is no such file or folder"):
        check_inputs(line[0], line[1:])


@pytest.mark.parametrize("line", FINE, ids=" ".join)
def test_what_is_there_or_no_input_passes(line: tuple[str, ...]) -> None:
    check_inputs(line[0], line[1:])


def test_what_to_do_is_said(tmp_path: Path) -> None:
    (tmp_path / "flowers.csv").touch()
    for missing, advice in (
        ("flower.csv", r"Did you mean flowers\.csv\?$"),
        ("x/y.csv", r"There is no folder x either"),
    ):
        with pytest.raises(Missing, match=advice):
            check_inputs("fit", [missing])
    with pytest.raises(Missing, match="what provenet fit writes"):
        check_inputs("export", ["model"])


def test_nothing_heavy_is_imported_for_it() -> None:
    ask = (
        "import sys; sys.argv = ['provenet', 'fit', 'gone.csv']\n"
        "from provenet.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, *[m for m in ('torch', 'sklearn', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2"], done.stdout + done.stderr
    assert "gone.csv: there is no such file" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_inputs_is_that_of_the_commands(name: str) -> None:
    parameters = _imported(name).params
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    assert name == "reproduce" or len(arguments) == INPUTS.get(name, (0, ""))[0]
    assert not any(each.is_flag or each.nargs != 1 for each in parameters if set(OPTIONS) & set(each.opts))
