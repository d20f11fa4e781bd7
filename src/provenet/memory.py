"""What fits: told before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path


def available_bytes() -> int | None:
    """Memory that can still be had, where the system tells."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: ask for the physical pages instead
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def fits(needed: int, share: float = 0.9) -> bool:
    """Whether ``needed`` bytes are at most ``share`` of what can be had."""
    there = available_bytes()
    return there is None or needed <= share * there


def check_fits(needed: int, what: str, advice: str) -> None:
    if not fits(needed):
        there = available_bytes() or 0
        raise MemoryError(f"{what} needs {gibibytes(needed)}, and {gibibytes(there)} are free. {advice}")


def gibibytes(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
