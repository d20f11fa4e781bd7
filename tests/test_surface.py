"""What a user sees first: quick to start, public names only, short words about long things."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from inspect import getdoc

import pytest

import provenet as pn
from provenet.cli.commands import COMMANDS

HEAVY = ("torch", "sklearn", "scipy", "numpy", "matplotlib")


def modules_after(code: str) -> set[str]:
    """What a fresh Python has imported after ``code``, of the heavy ones."""
    ask = f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_answers_before_anything_heavy_is_imported(option):
    assert not modules_after(f"sys.argv = ['provenet', '{option}']; from provenet.cli import main; main()")


def test_importing_the_package_is_quick_and_names_come_when_asked_for():
    assert not modules_after("import provenet; provenet.__version__; dir(provenet)")
    assert "torch" in modules_after("import provenet; provenet.ProvenClassifier")


def test_help_says_of_each_command_what_the_command_says_of_itself():
    for name, summary in COMMANDS.items():
        doc = getdoc(getattr(import_module(f"provenet.cli.{name}"), name)) or ""
        assert " ".join(doc.split("\n\n")[0].split()) == summary


def test_tab_completion_shows_public_names_only():
    assert set(pn.__all__) <= set(dir(pn))
    assert {name for name in dir(pn) if not hasattr(pn, name)} == set()
    assert set(dir(pn)) - set(pn.__all__) == {"__version__", "nn", "report", "testing", "verify"}
    assert pn.solvers.plan.METHODS  # not listed, and there
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pn.nonsense
