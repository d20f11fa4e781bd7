"""The site: every public name has its place, and what is written once is the same wherever it appears."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import getdoc, signature
from pathlib import Path

import provenet as pn
from provenet.solvers import METHODS
from provenet.statement import Scope

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_in_the_reference_once() -> None:
    listed = [
        name
        for page in (ROOT / "docs" / "reference").glob("*.md")
        for name in re.findall(r"^::: provenet\.([\w.]+)$", page.read_text(), re.MULTILINE)
    ]
    assert sorted(listed) == sorted(set(listed))
    assert set(pn.__all__) | {"heads", "nn", "ranks", "testing", "verify"} == set(listed)


def test_no_function_is_hidden_behind_a_file_of_its_name() -> None:
    """The reference would show the file, and leave the function out."""
    for room in (pn.heads, pn.nn, pn.ranks, pn.testing, pn.verify):
        files = {file.stem for file in Path(room.__file__).parent.glob("*.py")}
        assert not files & set(room.__all__)


def test_the_notebook_is_the_page() -> None:
    spec = spec_from_file_location("notebook", ROOT / "examples" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    notebook = module_from_spec(spec)
    spec.loader.exec_module(notebook)
    assert notebook.NOTEBOOK.read_text() == notebook.notebook(), "run python examples/notebook.py"


def test_the_notebook_prints_what_it_shows(tmp_path: Path) -> None:
    """The same words; numbers of its own on each machine: which gates a training finds hangs on the last digits."""
    cells = json.loads((ROOT / "examples" / "first_five_minutes.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    shown = "".join("".join(out["text"]) for cell in cells for out in cell.get("outputs", []))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "certified" in shown
    assert _words(done.stdout) == _words(shown)


def _words(printed: str) -> list[str]:
    return re.sub(r"[-+]?\d+(?:\.\d*)?(?:e[-+]\d+)?", "#", printed).split()


def test_every_example_has_its_place_in_the_menu() -> None:
    """The site is built strictly, but a page made by the gallery is made whether the menu has it or not."""
    menu = (ROOT / "mkdocs.yml").read_text()
    assert {f"examples/{file.stem}.md" for file in (ROOT / "examples" / "gallery").glob("*.py")} <= set(
        re.findall(r"examples/\w+\.md", menu)
    )


def test_parameters_that_are_described_together_have_one_default() -> None:
    """The reference gives all of them the default of the first."""
    wrong = []
    for room in (pn, pn.heads, pn.nn, pn.ranks, pn.testing, pn.verify):
        for name in room.__all__:
            thing = getattr(room, name)
            if not callable(thing):
                continue
            defaults = {each.name: each.default for each in signature(thing).parameters.values()}
            groups = re.findall(r"^ *(\w+(?:, \w+)+)(?: :.*)?\n +[A-Z]", getdoc(thing) or "", re.MULTILINE)
            for group in (each.split(", ") for each in groups):
                if len({repr(defaults.get(own)) for own in group}) > 1:
                    wrong.append((name, group))
    assert wrong == []


def test_citation_names_this_version() -> None:
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == pn.__version__


def test_words_has_every_method_and_scope() -> None:
    page = (ROOT / "docs" / "words.md").read_text()
    assert {name for name in METHODS if f"`{name}`" not in page} == set()
    assert {scope for scope in Scope if f"`{scope}`" not in page} == set()


def test_links_are_called_by_titles_not_by_files() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    assert [link for page in pages for link in re.findall(r"\[[\w/]+\.md\]\(\S+", page.read_text())] == []
