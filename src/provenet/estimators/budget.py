"""The seconds of a whole fit: gates, folds and all values of β."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from numbers import Real

from provenet import deadline

SHORTEST = 1e-3  # seconds: each part has an answer, if a poor one


class Budget:
    """``seconds`` from now on; None: as many as it takes."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0):
            raise ValueError(f"max_seconds: it must be a positive number, got {seconds!r}.")
        self.ends = None if seconds is None else time.perf_counter() + seconds

    def left(self, parts: int = 1) -> float | None:
        """For the next of so many parts with equal rights."""
        return None if self.ends is None else max((self.ends - time.perf_counter()) / parts, SHORTEST)

    def within(self) -> AbstractContextManager[None]:
        """What is done in here knows how much time is left."""
        return deadline.within(self.left())

    @property
    def over(self) -> bool:
        return self.ends is not None and time.perf_counter() >= self.ends
