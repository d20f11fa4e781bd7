"""Results, a line of JSON each, written as they come, so that a comparison can be stopped and go on later."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from provenet.files import whole_lines


@dataclass(frozen=True)
class Record:
    """One estimator on one split of one table; ``gap`` is the relative gap that was proven, where there is one.

    ``state`` counts the random states that the split was fitted with, from zero on.
    """

    table: str
    split: int
    who: str
    score: float | None
    seconds: float
    gap: float | None = None
    error: str | None = None
    state: int = 0

    @property
    def key(self) -> tuple[str, tuple[int, int], str]:
        return self.table, (self.state, self.split), self.who


class Keyed(Protocol):
    """A dataclass of plain values, and what it is the result of."""

    @property
    def key(self) -> Hashable: ...


R = TypeVar("R", bound=Keyed)


class Records(Generic[R]):
    """What a file holds, results of one ``kind``; what is added is in it at once."""

    def __init__(self, file: Path, kind: type[R]) -> None:
        self.file = file
        self._known: dict[Hashable, R] = {record.key: record for record in _read(file, kind)}

    def __iter__(self) -> Iterator[R]:
        return iter(self._known.values())

    def __contains__(self, key: Hashable) -> bool:
        return key in self._known

    def get(self, key: Hashable) -> R | None:
        return self._known.get(key)

    def add(self, record: R) -> None:
        said: Any = record
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(said), ensure_ascii=False) + "\n")
        self._known[record.key] = record


def _read(file: Path, kind: type[R]) -> Iterator[R]:
    """A last one that was cut off when a run was stopped is done again."""
    described: Any = kind
    names = {field.name for field in fields(described)}
    for number, line in enumerate(whole_lines(file), 1):
        try:
            said = json.loads(line)
            yield kind(**{name: value for name, value in said.items() if name in names})
        except (ValueError, TypeError, AttributeError):
            raise ValueError(
                f"{file}: line {number} is not a result of a comparison; name another file, or remove it."
            ) from None
