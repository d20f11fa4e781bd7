"""A bar that fills as the gap falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from provenet.cli.console import errors
from provenet.solvers import Record


@contextmanager
def gap_bar(tol: float, quiet: bool, name: str = "fitting") -> Iterator[Callable[[Record], None]]:
    """A callback for `solve` that shows the gap on its way from its first value to ``tol``; nothing off a terminal."""
    console = errors()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[gap]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task(name, total=1.0, gap="")
        first: list[float] = []

        def show(record: Record) -> None:
            first.append(record.relative_gap)
            progress.update(
                task,
                completed=fraction_done(first[0], record.relative_gap, tol),
                gap=f"step {record.step}, relative gap {record.relative_gap:.1e} → {tol:g}",
            )

        yield show


def fraction_done(first: float, now: float, tol: float) -> float:
    """How far a gap has come on a logarithmic scale, in [0, 1]."""
    if not now > tol:
        return 1.0
    if not first > now:
        return 0.0
    return math.log(first / now) / math.log(first / tol)
