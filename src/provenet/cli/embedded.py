"""What `provenet embed` tells of its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from provenet.cli.console import errors, warn
from provenet.cli.progress import bar
from provenet.embeddings import Embedding

_EVERY = 80  # batches between two lines off a terminal


def as_json(made: Embedding) -> dict[str, Any]:
    kept_of = ("backbone", "reduction", "size", "shape", "files")
    return {"folder": str(made.folder), "skipped": made.skipped} | {key: made.about[key] for key in kept_of}


def tell_skipped(made: Embedding) -> None:
    for _, why in made.skipped[:10]:
        warn(f"skipped {why}")
    if len(made.skipped) > 10:
        warn(f"skipped {len(made.skipped) - 10} more; embedding.json lists them.")


@contextmanager
def counted_off(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Samples done and the time left, on a terminal; a line now and then elsewhere."""
    console = errors()
    if quiet:
        yield lambda done, total: None
        return
    if not console.is_terminal:
        told: list[int] = []

        def line(done: int, total: int) -> None:
            told.append(done)
            if len(told) % _EVERY == 0 or done == total:
                console.print(f"{done} of {total} {what}", soft_wrap=True, highlight=False)

        yield line
        return
    with bar(MofNCompleteColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
