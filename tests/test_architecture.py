"""docs/architecture.md is of the code as it is."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import provenet
from provenet.data.loading import Columns, load_dataset

ROOT = Path(__file__).parents[1]
SOURCE = Path(provenet.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = (ROOT / "docs" / "rooms.svg").read_text(encoding="utf-8")


def floors() -> list[set[str]]:
    """As test_imports.py has them, the lowest first."""
    tree = ast.parse((ROOT / "tests" / "test_imports.py").read_text(encoding="utf-8"))
    found = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "FLOORS")
    return list(ast.literal_eval(next(found)))


def listed() -> list[str]:
    """The rooms of the page, in its order."""
    return [name for name, _ in re.findall(r"^    (\w+)(\.py|/) +\S", PAGE, re.MULTILINE)]


def test_every_room_is_listed_in_the_order_of_imports() -> None:
    level = {room: height for height, rooms in enumerate(floors()) for room in rooms}
    assert sorted(listed()) == sorted(level)
    assert [level[room] for room in listed()] == sorted(level.values())


def test_every_room_is_drawn_and_none_above_one_that_imports_it() -> None:
    drawn = re.findall(r'<text x="(\d+)" y="(\d+)" class="room[^>]*>(\w+)<', PICTURE)
    first = {name: (-int(y), int(x)) for x, y, name in reversed(drawn)}  # solvers/cones is drawn above cones
    where = first | {"cones": next((-int(y), int(x)) for x, y, name in reversed(drawn) if name == "cones")}
    assert set(listed()) <= set(where)
    for height, rooms in enumerate(floors()):
        for lower in floors()[:height]:
            for room in rooms:
                assert all(where[other] < where[room] for other in lower), f"{room} is drawn below what it imports"


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE))
    assert len(named) > 40
    lost = [name for name in named if not ((SOURCE / name).exists() or (ROOT / name).exists())]
    assert not lost


def way_of_one_sample() -> set[str]:
    """The files it names from the data to the certificate."""
    way = PAGE.split("## The way of one sample")[1].split("7. **Checked once more.**")[0]
    return set(re.findall(r"`([\w/]+\.py)`", way))


def test_the_way_of_one_sample_has_as_many_files_as_it_says() -> None:
    said = re.search(r"pass through these (\d+) files", PAGE)
    assert said is not None
    assert len(way_of_one_sample()) == int(said[1])


def test_the_way_of_one_sample_is_the_way_it_goes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    table = np.column_stack([X, X[:, 0] * X[:, 1] > 0])
    np.savetxt(tmp_path / "data.csv", table, delimiter=",", header="a,b,c,d,y", comments="")
    passed: set[str] = set()

    def fitted() -> Any:
        data = load_dataset(tmp_path / "data.csv", Columns(["y"]))
        asked: dict[str, Any] = {"activation": "gated_relu", "gates": "gaussian", "n_gates": 20, "solver": "admm"}
        return provenet.ProvenClassifier(beta=0.5, fit_intercept=True, **asked).fit(data.X, data.y)

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            passed.add(code.co_filename)

    fitted()  # what is imported late is imported now
    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        found = fitted()
    finally:
        sys.setprofile(before)
    assert found.certificate_.status == "certified"
    ours = {Path(name).relative_to(SOURCE).as_posix() for name in passed if str(SOURCE) in name}
    assert way_of_one_sample() <= ours
    assert "About ninety take some part" in PAGE
    assert 85 <= len(ours) < 95
