"""What `provenet layerwise` tells of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from provenet.cli.console import errors, warn
from provenet.layerwise.progress import Event, Watcher

_PAUSE = 5.0  # seconds


def tell_of_axes(data: Path, shape: tuple[int, ...]) -> None:
    """Where another reading of an NPZ file's X is likely."""
    if len(shape) == 3:
        axes = f"{shape[1]} tokens of {shape[2]} features"
        warn(f"{data}: X {shape} is taken for {axes}; greyscale images are (n, 1, height, width).")
    if len(shape) == 4 and shape[3] in (1, 3) and shape[1] not in (1, 3):
        axes = f"{shape[1]} channels of {shape[2]} × {shape[3]} pixels"
        warn(f"{data}: X {shape} is taken for {axes}; images are (n, channels, height, width).")


def _by_lines(console: Console) -> Watcher:
    """A line an epoch; of a stage that is solved, whose steps are many, one every few seconds."""
    last = -math.inf

    def tell(event: Event) -> None:
        nonlocal last
        if event.epoch is not None or time.perf_counter() - last > _PAUSE:
            last = time.perf_counter()
            console.print(str(event), soft_wrap=True, highlight=False)

    return tell


@contextmanager
def shown(quiet: bool) -> Iterator[Watcher]:
    """Stage, epoch, loss, score and the time left, on a terminal; a line an epoch elsewhere, on stderr."""
    console = errors()
    if quiet or not console.is_terminal:
        yield (lambda event: None) if quiet else _by_lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0, said="")

        def show(event: Event) -> None:
            progress.update(
                task, description=f"stage {event.stage}/{event.stages}", completed=event.done, said=str(event)
            )

        yield show
