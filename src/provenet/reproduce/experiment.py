"""What an experiment of the papers is, here: how it is run, what comes out, and pieces that need not be run twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from provenet.files import whole_lines

Piece = dict[str, Any]


class OutOfTime(Exception):
    """The time that was given is over; what is finished is kept."""


@dataclass(frozen=True)
class Table:
    """Rows of strings under their columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Findings:
    """What came out: tables, pictures by name, and in words what agrees with the paper and what does not."""

    tables: tuple[Table, ...]
    pictures: Mapping[str, Figure]
    words: tuple[str, ...]
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """paper: figure and section.  reported: what the paper says came out.  run: does it, quick or as in the paper.
    resizable: whether the numbers of gates and epochs can be said (`Run.gates`, `Run.epochs`)."""

    name: str
    title: str
    paper: str
    reported: str
    run: Callable[[Run], Findings]
    resizable: bool = False


@dataclass
class Run:
    """One run: ``quick`` takes less than a minute and says the same in small; ``kept`` is where pieces are written.

    ``data``: a folder of the data that an experiment asks for.  ``gates`` and ``epochs``: instead of its own numbers,
    for those that are ``resizable``."""

    quick: bool = False
    kept: Path | None = None
    max_seconds: float | None = None
    tell: Callable[[str], Any] = lambda _: None
    data: Path | None = None
    gates: int | None = None
    epochs: int | None = None
    _began: float = field(default_factory=time.perf_counter)

    def piece(self, key: str, make: Callable[[], Piece]) -> Piece:
        """What ``make`` gives, or what it gave in an earlier run with the same key."""
        known = self._known()
        if key in known:
            return known[key]
        if self.max_seconds is not None and time.perf_counter() - self._began > self.max_seconds:
            raise OutOfTime
        began = time.perf_counter()
        made = make()
        if self.kept is not None:
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            with self.kept.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": key, "piece": made}) + "\n")
        self.tell(f"{key}  {time.perf_counter() - began:.1f} s")
        return made

    def _known(self) -> dict[str, Piece]:
        """Every whole line; a last one that was cut off is made again."""
        if self.kept is None:
            return {}
        try:
            lines = [json.loads(line) for line in whole_lines(self.kept)]
            return {line["key"]: line["piece"] for line in lines}
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self.kept}: these are not pieces of an experiment; name another folder.") from None
