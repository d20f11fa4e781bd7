"""Work in a process of its own, forked from this one, so that nothing is imported again; killed, or left to end."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

Say = Callable[[str], None]
Work = Callable[[Say], None]
_BEGUN = "begun"


def told_by(work: Work, kill_after: float | None = None) -> list[str]:
    """The lines that ``work`` has said; with ``kill_after``, until it was killed so many seconds after it began."""
    hear, say = os.pipe()

    def begun() -> None:
        _write(say, _BEGUN)
        work(lambda line: _write(say, line))

    child = forked(begun, Path(os.devnull), hear)
    os.close(say)
    os.read(hear, len(_BEGUN) + 1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)  # one that has ended waits for us, and does not mind
    with os.fdopen(hear) as lines:
        told = lines.read().splitlines()
    os.waitpid(child, 0)
    return told


def forked(work: Callable[[], None], output: Path, *close: int) -> int:
    """The number of a process that does the work, what it prints going to ``output``, and ends."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for handle in close:
            os.close(handle)
        target = open(output, "w", encoding="utf-8", buffering=1)  # noqa: SIM115 — for as long as the process lasts
        os.dup2(target.fileno(), 1)
        os.dup2(target.fileno(), 2)
        sys.stdout = sys.stderr = target
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _write(handle: int, line: str) -> None:
    os.write(handle, f"{line}\n".encode())
