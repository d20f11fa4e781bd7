"""path.csv and path.json, written as the path goes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from provenet.cli.console import as_csv
from provenet.files import write_atomically

_PAUSE, _SHARE = 1.0, 20.0  # path.json is written anew after so many seconds, and so many times what it took


class PathFiles:
    """The first row replaces what an earlier path left; each one more is in path.csv at once, in path.json soon."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table, self.record = folder, folder / "path.csv", folder / "path.json"
        self.rows: list[dict[str, Any]] = []
        self._due = 0.0

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if len(self.rows) == 1:
            write_atomically(self.table, as_csv(row, [row.values()]).encode())
        else:
            with self.table.open("ab") as file:
                file.write(as_csv(row.values(), []).encode())
        if time.perf_counter() >= self._due:
            self.finish()

    def finish(self) -> None:
        began = time.perf_counter()
        write_atomically(self.record, (json.dumps({"path": self.rows}, indent=2) + "\n").encode())
        now = time.perf_counter()
        self._due = now + max(_PAUSE, _SHARE * (now - began))
