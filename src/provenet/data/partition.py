"""Rows that lie in several parts, one part after the other: which rows are where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate


class Partition:
    """sizes: rows of each part."""

    def __init__(self, sizes: Sequence[int]):
        self.starts = [0, *accumulate(sizes)]

    @property
    def total(self) -> int:
        return self.starts[-1]

    def within(self, rows: slice) -> Iterator[tuple[int, int, int]]:
        """(part, first, end) of every part that has some of these rows, counted from the part's own first row."""
        first, end, step = rows.indices(self.total)
        if step != 1:
            raise ValueError(f"rows: only rows in a row can be read at once, not every {step}.")
        for part, (begins, ends) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            if max(first, begins) < min(end, ends):
                yield part, max(first - begins, 0), min(end, ends) - begins
