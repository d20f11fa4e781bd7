"""What a command reads must be there, and that is looked at before torch is imported, which takes seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

from provenet.data.sets import WHERE

# all arguments of these commands are inputs: how many there are, and what to do where one is missing
_TABLE = "Data are a CSV, Parquet, NPY or NPZ file, or - for standard input."
_MODEL = "Model folders are what provenet fit writes."
INPUTS = {
    "fit": (1, _TABLE),
    "path": (1, _TABLE),
    "predict": (2, f"{_MODEL} {_TABLE}"),
    "certify": (2, f"{_MODEL} {_TABLE}"),
    "export": (1, _MODEL),
    "embed": (1, f"{WHERE}."),
    "head": (1, "Embeddings are what provenet embed writes: embed first."),
    "layerwise": (1, f"{WHERE}."),
}
# options whose values are inputs, of any command
OPTIONS = ("--judge", "--like", "--test")


class Missing(Exception):
    """Of an input that is not there."""


def check_inputs(command: str, arguments: Sequence[str]) -> None:
    """Missing where a path does not exist; what may be an option's value, or is too much, the parser judges."""
    if "--help" in arguments:
        return
    count, advice = INPUTS.get(command, (0, ""))
    given, by_option = list(_certain(arguments)), list(_by_option(arguments))
    for path in (given if len(given) <= count else []) + by_option:
        if path != "-" and not Path(path).exists():
            raise Missing(f"{path}: there is no such file or folder. {_near(path) or advice}".rstrip())


def _certain(arguments: Sequence[str]) -> Iterator[str]:
    """Arguments that cannot be the value of an option: none stands right before them."""
    before = ""
    for k, each in enumerate(arguments):
        if each == "--":
            yield from arguments[k + 1 :]
            return
        if not _is_option(each) and (not _is_option(before) or "=" in before):
            yield each
        before = each


def _by_option(arguments: Sequence[str]) -> Iterator[str]:
    for each, following in pairwise([*arguments, ""]):
        name, given, value = each.partition("=")
        if name in OPTIONS and (given or following):
            yield value if given else following


def _is_option(argument: str) -> bool:
    return re.match(r"-(?![\d.])", argument) is not None and argument != "-"  # -1 is a value, and - standard input


def _near(path: str) -> str:
    """A name beside it that it may be meant to be."""
    folder, name = Path(path).parent, Path(path).name
    if not folder.is_dir():
        return f"There is no folder {folder} either."
    found = get_close_matches(name, [each.name for each in folder.iterdir()], n=1, cutoff=0.75)
    return f"Did you mean {folder / found[0]}?" if found else ""
