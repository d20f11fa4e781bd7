"""What was seen, a line a chunk of cases, so that a run that ends goes on where it stood.

A line is of the code it was seen with, and counts for no other.  Several processes may write to one file: a line is
appended as a whole, and each figure has one process at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trust.code import digest
from trust.figure import Figure, Seen, Try


@dataclass
class Told:
    """All that is known of a figure."""

    done: int = 0
    words: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    days: set[str] = field(default_factory=set)
    machines: set[str] = field(default_factory=set)
    load: float = 0.0


class Changed(RuntimeError):
    """The code is no longer that of the records."""


class Records:
    """The lines of a file that are of this code."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code

    @contextmanager
    def alone(self, figure: Figure) -> Iterator[bool]:
        """Whether no other process works on the figure; none does until this ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f"{self.path.stem}-{figure.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    def lines(self) -> Iterator[dict[str, Any]]:
        """Those of this code."""
        return (line for line in self._all() if line.get("code") == self.code)

    def others(self) -> int:
        """How many lines are of other code."""
        return sum(line.get("code") != self.code for line in self._all())

    def _all(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # the last one, of a run that was killed
                continue

    def told(self, figure: Figure) -> Told:
        known = Told()
        for line in self.lines():
            if line["figure"] != figure.name or line["first"] != known.done:
                continue
            known.done = line["last"]
            known.words.update(line["seen"])
            known.failures += line["failures"]
            known.cpu += line["cpu"]
            known.days.add(line["day"])
            known.machines.add(line["machine"])
            known.load = max(known.load, line["load"])
            for name, value in line["worst"].items():
                known.worst[name] = max(value, known.worst.get(name, value))
        return known

    def add(self, figure: Figure, first: int, last: int, attempt: Try, machine: str) -> dict[str, Any]:
        """Try cases first … last − 1, and write down what came of them."""
        began = _cpu()
        words: Counter[str] = Counter()
        failures: list[dict[str, Any]] = []
        worst: dict[str, float] = {}
        for case in range(first, last):
            seen = tried(attempt, case)
            words[seen.word] += 1
            if seen.wrong is not None:
                failures.append({"case": case, "wrong": seen.wrong})
            for name, value in seen.measured.items():
                worst[name] = max(value, worst.get(name, value))
        line: dict[str, Any] = {"figure": figure.name, "first": first, "last": last, "seen": dict(words)}
        line |= {"failures": failures, "worst": worst, "cpu": round(_cpu() - began, 3), "machine": machine}
        line |= {"day": time.strftime("%Y-%m-%d", time.gmtime()), "load": round(os.getloadavg()[0], 1)}
        line |= {"code": self.code}
        if digest() != self.code:
            raise Changed("the code has changed since this run began; begin it again.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open(
            "ab"
        ) as file:  # a line of a run that was killed in the middle of it stays a line of its own
            fcntl.flock(file, fcntl.LOCK_EX)
            cut = self.path.read_bytes()[-1:] not in (b"", b"\n")
            file.write((b"\n" if cut else b"") + json.dumps(line, ensure_ascii=False).encode() + b"\n")
        return line


def tried(attempt: Try, case: int) -> Seen:
    """What no figure foresees is a failure of that case, not of the run."""
    try:
        return attempt(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Seen("crashed", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")


def _cpu() -> float:
    """Seconds of this process and of the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
