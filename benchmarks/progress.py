"""What is going on, on stderr, while it goes on."""

from __future__ import annotations

import sys
import time

_BEGAN = time.perf_counter()


def doing(what: str) -> None:
    """With the minutes and seconds since the start."""
    minutes, seconds = divmod(int(time.perf_counter() - _BEGAN), 60)
    print(f"[{minutes:>3}:{seconds:02}] {what}", file=sys.stderr, flush=True)
