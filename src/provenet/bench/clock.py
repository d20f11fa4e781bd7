"""Processor seconds: on one thread the same, whatever else the machine does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """How long it took, and what was made."""
    began = time.process_time()
    made = work()
    return time.process_time() - began, made


def least(work: Callable[[], object], times: int = 5) -> float:
    """The quickest of so many, what is prepared once being prepared."""
    work()
    return min(timed(work)[0] for _ in range(times))
