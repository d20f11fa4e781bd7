"""What a figure is: cases by number, each tried once, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Seen:
    """What came of a case, in a word or two that are counted; ``wrong``: what should not have been."""

    word: str
    wrong: str | None = None
    measured: dict[str, float] = field(default_factory=dict)


Try = Callable[[int], Seen]
"""One case by its number; the same number is the same case in every run."""


@dataclass(frozen=True)
class Figure:
    """``ready(folder)`` prepares what all cases share, with a folder to work in, and gives the way to try one.

    title, promise: the row of the page; checked: what is looked at in each case, in a sentence or two.
    chunk: cases a record; small: as many as the tests try.
    """

    name: str
    title: str
    promise: str
    checked: str
    count: int
    chunk: int
    small: int
    ready: Callable[[Path], AbstractContextManager[Try]]


def pick(rng: Any, values: list[Value]) -> Value:
    """One of the values, as it is: numpy's own choice would make arrays of them."""
    return values[int(rng.integers(len(values)))]
