"""Bars on a terminal: one that fills as the gap falls, or as a search over β goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

from provenet.cli.console import errors

if TYPE_CHECKING:
    from provenet.solvers import Record

_TELLING = 0.05  # of a search; less says nothing of the rest


@dataclass(frozen=True)
class Bar:
    """show: a callback for `solve`, of the gap on its way from its first value to the tolerance.  count: for a search,
    of the share of it that is done, at most, and what comes next; once it has spoken, the bar is the search's until
    that is over."""

    show: Callable[[Record], None]
    count: Callable[[float, str], None]


def bar(*columns: ProgressColumn, quiet: bool = False) -> Progress:
    """A name, a bar and these columns; nothing off a terminal, or if quiet."""
    console = errors()
    shown = (TextColumn("{task.description}"), BarColumn(), *columns)
    return Progress(*shown, console=console, transient=True, disable=quiet or not console.is_terminal)


@contextmanager
def gap_bar(tol: float, quiet: bool, name: str = "fitting") -> Iterator[Bar]:
    """Nothing off a terminal."""
    with bar(TextColumn("{task.fields[told]}"), TimeElapsedColumn(), quiet=quiet) as progress:
        task = progress.add_task(name, total=1.0, told="")
        first: list[float] = []
        searching = False

        def show(record: Record) -> None:
            if searching:
                return
            first.append(record.relative_gap)
            progress.update(
                task,
                completed=fraction_done(first[0], record.relative_gap, tol),
                told=f"step {record.step}, relative gap {record.relative_gap:.1e} → {tol:g}",
            )

        def count(done: float, what: str) -> None:
            nonlocal searching
            searching = done < 1.0
            first.clear()
            progress.update(
                task, completed=done if searching else 0.0, told=what + time_left(progress.tasks[0].elapsed, done)
            )

        yield Bar(show, count)


def time_left(elapsed: float | None, done: float) -> str:
    """Until a search is over, at most, as far as can be told; nothing at its very beginning and end."""
    if elapsed is None or not _TELLING < done < 1.0:
        return ""
    return f", about {elapsed * (1 - done) / done:.0f} s left"


def fraction_done(first: float, now: float, tol: float) -> float:
    """How far a gap has come on a logarithmic scale, in [0, 1]."""
    if not now > tol:
        return 1.0
    if not first > now:
        return 0.0
    return math.log(first / now) / math.log(first / tol)
