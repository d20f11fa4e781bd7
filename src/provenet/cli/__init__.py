"""The command line: one file a sub-command, each imported when it is asked for."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_LATER = 0.01  # seconds
_CAME: list[int] = []


def main() -> None:
    """The command `provenet`.  Ctrl-C ends it quietly from the first import on."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # one that is ignored stays so
        signal.signal(signal.SIGINT, _end_at_once)
    from provenet.cli.commands import run

    try:
        run()
    finally:  # all is said: a Ctrl-C that comes while Python ends would only make a success look like a failure
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_at_once(_: int, __: FrameType | None) -> None:
    """Before a command has begun: an exception in the middle of an import may come out as any other."""
    sys.stderr.write("error: interrupted, and nothing was saved.\n")
    sys.stderr.flush()
    os._exit(1)


@contextmanager
def importing() -> Iterator[None]:
    """Around a command's imports of torch and the like, which take seconds: --help and wrong use do without them, and
    its work begins after them."""
    yield
    ready_to_work()


def ready_to_work() -> None:
    """From here on Ctrl-C is an exception again, for those who can keep what they have."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _once_more


def _interrupt(number: int, frame: FrameType | None) -> None:
    _CAME.append(number)
    signal.default_int_handler(number, frame)


def interrupted() -> bool:
    """Whether a Ctrl-C came while a command worked: compiled code may make another exception of it."""
    return bool(_CAME)


def _once_more(lost: sys.UnraisableHookArgs) -> None:
    """A Ctrl-C that came while Python cleared something away, where exceptions are dropped, comes again a little
    later."""
    if lost.exc_type is KeyboardInterrupt:
        with suppress(RuntimeError):  # Python ends: there is nothing left to interrupt
            threading.Timer(_LATER, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from provenet.cli.commands import app

    return app
