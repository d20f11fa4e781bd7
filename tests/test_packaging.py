"""The pins: nothing that is installed may float, torch least of all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import provenet

ROOT = Path(__file__).parent.parent


def pinned() -> dict[str, set[str]]:
    """Name → the versions pinned for it (one a Python)."""
    pins: dict[str, set[str]] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            found = re.fullmatch(r"([\w.-]+)==([\w.]+)( ; python_version (>=|<) '3\.11')?", line)
            assert found, f"not a pin: {line}"
            pins.setdefault(found[1].lower().replace("_", "-"), set()).add(found[2])
    return pins


def test_every_dependency_is_pinned() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    names = {re.split(r"[\[<>=~! ]", need)[0].lower() for need in wanted} - {"provenet"}
    assert {"torch", "numpy", "scipy", "scikit-learn", "safetensors", "typer", "cvxpy", "onnx", "ruff"} <= names
    assert names <= set(pinned())


def test_torch_is_one_version_everywhere() -> None:
    assert pinned()["torch"] == {"2.13.0"}
    assert set(re.findall(r"torch==([\w.]+)", (ROOT / "Makefile").read_text())) == {"2.13.0"}


def test_every_pip_install_is_constrained() -> None:
    recipe = (ROOT / "Makefile").read_text()
    installs = [line for line in recipe.splitlines() if " install " in line]
    assert len(installs) == 4
    assert all("-c constraints.txt" in line for line in installs)


def test_the_environment_is_the_pinned_one() -> None:
    import torch

    assert torch.__version__.split("+")[0] == "2.13.0"


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", provenet.__version__)
