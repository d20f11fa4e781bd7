"""Imports go one way: a room of the house knows only the rooms below it."""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import provenet

ROOT = Path(provenet.__file__).parent
FLOORS = (
    {"ranks"},
    {"beta", "deadline", "memory", "space", "batches", "names", "word", "wrong_use", "vectors", "files"},
    {"variable", "verify", "cones"},
    {"operators", "losses", "gauges", "gates", "nn", "data"},
    {"polar", "blocks", "scaling", "embeddings"},
    {"statement"},
    {"problem"},
    {"formulation", "certificates", "reductions"},
    {"solvers"},
    {"proofs"},
    {"estimators"},
    {"layerwise"},
    {"io"},
    {"heads", "report"},
    {"bench", "reproduce"},
    {"cli"},
    {"testing"},
)
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in ROOT.rglob("*.py") if path not in (ROOT / "__init__.py", ROOT / "__main__.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(source: str) -> set[str]:
    """Every module a source imports, wherever in the file, as a dotted name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imported_rooms(source: str) -> set[str]:
    parts = (name.split(".") for name in imported_modules(source))
    return {part[1] for part in parts if part[0] == "provenet" and len(part) > 1}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in FLOOR, f"{room} has no floor yet: give it one in {Path(__file__).name}"
    for other in imported_rooms(path.read_text(encoding="utf-8")) - {room, "__version__"}:
        assert FLOOR[other] < FLOOR[room], f"{path.relative_to(ROOT)} imports provenet.{other}, which is not below it"


def test_the_network_modules_are_plain_torch() -> None:
    for path in (ROOT / "nn").glob("*.py"):
        assert imported_rooms(path.read_text(encoding="utf-8")) <= {"nn"}


def test_the_independent_checker_needs_numpy_only() -> None:
    for path in (ROOT / "verify").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert imported_rooms(source) <= {"verify"}
        roots = {name.split(".")[0] for name in imported_modules(source)}
        assert roots - set(sys.stdlib_module_names) <= {"numpy", "provenet"}


def test_nothing_is_ever_unpickled() -> None:
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        assert not {"pickle", "joblib", "cloudpickle", "dill"} & {m.split(".")[0] for m in imported_modules(source)}, (
            path
        )
        assert "torch.load" not in source.replace("safetensors.torch.load", ""), path
        assert "allow_pickle=True" not in source, path


def test_a_wrong_direction_is_seen() -> None:
    assert imported_rooms("from provenet import nn as modules\ndef f():\n    import provenet.cli.app") == {"nn", "cli"}


def imported_at_once(path: Path) -> set[str]:
    """The package's files that a file imports when it is imported itself, as dotted names."""
    known = {name_of(other) for other in FILES}
    found = {
        name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in imported_modules(ast.unparse(node))
    }
    return {name if name in known else name.rpartition(".")[0] for name in found} & known


def name_of(path: Path) -> str:
    return ".".join(("provenet", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def test_no_file_waits_for_itself() -> None:
    """Files of one room, too, are imported one after the other, never in a circle."""
    order = TopologicalSorter({name_of(path): imported_at_once(path) for path in FILES})
    assert list(order.static_order())
    with pytest.raises(CycleError):
        list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
