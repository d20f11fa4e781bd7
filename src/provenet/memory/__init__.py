"""What fits: told before anything is allocated."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from numbers import Real
from pathlib import Path
from typing import Any

_TRIFLE = 2**24  # bytes: less than what the libraries take anyway, and asking the system takes a millisecond
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SAID = re.compile(rf"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*({'|'.join(_UNITS)})")


def available_bytes(root: Path = Path("/")) -> int | None:
    """Memory that can still be had, where the system tells: the machine's, or less where a container has a limit."""
    known = [size for size in (_of_machine(root), *_of_containers(root)) if size is not None]
    return max(min(known), 0) if known else None


def _of_machine(root: Path) -> int | None:
    free = _named(root / "proc/meminfo", "MemAvailable:")
    if free is not None:
        return free * 1024
    try:  # not Linux: ask for the physical pages instead
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_containers(root: Path) -> Iterator[int]:
    """What this process's control group, and each that it is inside of, leaves; versions 2 and 1 of the kernel's.

    What is used but could be dropped at once, pages of files read before, counts as free.
    """
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            top, limit, used, dropped = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in kinds.split(","):
            top, limit, used = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            dropped = "total_inactive_file"
        else:
            continue
        inside = Path(path.strip("/"))
        for group in (inside, *inside.parents):
            folder = root / top / group
            most, taken = _number(folder / limit), _number(folder / used)
            if most is not None and taken is not None:
                yield most - taken + (_named(folder / "memory.stat", dropped) or 0)


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    """None also where the file says "max", no limit."""
    text = (_text(path) or "").strip()
    return int(text) if text.isdecimal() else None


def _named(path: Path, name: str) -> int | None:
    """The number of a line "name number …"."""
    lines = (line.split() for line in (_text(path) or "").splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name]), None)


def fits(needed: int, share: float = 0.9) -> bool:
    """Whether ``needed`` bytes are at most ``share`` of what can be had."""
    if needed <= _TRIFLE:
        return True
    there = available_bytes()
    return there is None or needed <= share * there


def check_fits(needed: int, what: str, advice: str) -> None:
    if not fits(needed):
        there = available_bytes() or 0
        raise MemoryError(f"{what} needs {gibibytes(needed)}, and {gibibytes(there)} are free. {advice}")


def gibibytes(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def as_bytes(said: Any) -> int | None:
    """A limit as a user says it, "4GB", "512 MiB" or a number of bytes; None: there is none."""
    if said is None:
        return None
    if isinstance(said, str):
        found = _SAID.fullmatch(said.strip().lower())
        size = float(found[1]) * _UNITS[found[2]] if found else math.nan
    else:
        size = float(said) if isinstance(said, Real) and not isinstance(said, bool) else math.nan
    if not 1 <= size < math.inf:
        raise ValueError(f"memory_limit: it must be a size such as '4GB', '512MB' or '2GiB', or bytes, got {said!r}.")
    return int(size)


def shown(size: float) -> str:
    """Bytes as a user says them."""
    unit = next(unit for unit in ("GB", "MB", "kB") if size >= _UNITS[unit.lower()] or unit == "kB")
    return f"{size / _UNITS[unit.lower()]:.3g} {unit}"
