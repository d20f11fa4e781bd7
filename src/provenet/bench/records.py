"""Results, a line of JSON each, written as they come, so that a comparison can be stopped and go on later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Record:
    """One estimator on one split of one table; ``gap`` is the relative gap that was proven, where there is one."""

    table: str
    split: int
    who: str
    score: float | None
    seconds: float
    gap: float | None = None
    error: str | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        return self.table, self.split, self.who


class Records:
    """What a file holds; what is added is in it at once."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._known = {record.key: record for record in _read(file)}

    def __iter__(self) -> Iterator[Record]:
        return iter(self._known.values())

    def __contains__(self, key: tuple[str, int, str]) -> bool:
        return key in self._known

    def add(self, record: Record) -> None:
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
        self._known[record.key] = record


def _read(file: Path) -> Iterator[Record]:
    """Every whole line; the last one may have been cut off when a run was stopped, and is done again."""
    if not file.exists():
        return
    text = file.read_text(encoding="utf-8")
    whole, _, rest = text.rpartition("\n")
    if rest:
        file.write_text(whole + "\n" if whole else "", encoding="utf-8")
    names = {field.name for field in fields(Record)}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            said = json.loads(line)
            yield Record(**{name: value for name, value in said.items() if name in names})
        except (ValueError, TypeError, AttributeError):
            raise ValueError(
                f"{file}: line {number} is not a result of a comparison; name another file, or remove it."
            ) from None
