"""What a command has written so far, so that an interruption can be told truthfully."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from provenet.cli.console import complain

_WRITTEN: dict[str, Path] = {}


def begin() -> None:
    _WRITTEN.clear()


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """``what`` is written to ``path`` in here.  Ctrl-C waits for its end: it is there or not, and known to be."""
    with uninterrupted():
        yield
        _WRITTEN[what] = path


def report(what: str, folder: Path, write: Callable[[Path], Path]) -> Path | None:
    """The report that ``write`` writes into the folder of ``what``; None where it cannot, on a full disk, say: the work
    itself is safe."""
    page = folder / "report.html"
    try:
        with writing("report", page):
            return write(page)
    except OSError as error:
        complain(f"the report could not be written ({error}); the {what} is in {folder}.")
        return None


def there(what: str, path: Path) -> None:
    """``what`` has been written by others."""
    _WRITTEN[what] = path


def told() -> str:
    """ "and nothing was saved", or what was, and where."""
    if not _WRITTEN:
        return "and nothing was saved"
    return "but " + " and ".join(f"the {what} is in {path}" for what, path in _WRITTEN.items())


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C takes effect when this has ended."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda *signal_: came.append(signal_))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])
