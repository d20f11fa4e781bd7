"""What the records say: means over splits, ranks over tables, and who did best where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from provenet.bench.records import Record


@dataclass(frozen=True)
class Summary:
    """Scores, seconds and gaps (tables, entrants, splits); NaN where there is no result.

    A split that was fitted with several random states counts as so many splits.
    """

    tables: tuple[str, ...]
    who: tuple[str, ...]
    scores: NDArray[np.float64]
    seconds: NDArray[np.float64]
    gaps: NDArray[np.float64]

    @classmethod
    def of(cls, records: Iterable[Record], tables: Sequence[str], who: Sequence[str]) -> Summary:
        """Of these entrants on those splits of these tables that every one of them has a result of."""
        known = {record.key: record for record in records if record.table in tables and record.who in who}
        splits = sorted({split for _, split, _ in known})
        values = np.full((3, len(tables), len(who), max(len(splits), 1)), np.nan)
        for t, table in enumerate(tables):
            for s, split in enumerate(splits):
                found = [known.get((table, split, name)) for name in who]
                for w, record in enumerate(found):
                    if record is not None and None not in found:
                        values[:, t, w, s] = _number(record.score), record.seconds, _number(record.gap)
        there = ~np.isnan(values[0]).all((1, 2))
        return cls(tuple(np.array(tables)[there]), tuple(who), *values[:, there])

    @property
    def splits(self) -> NDArray[np.int64]:
        """How many splits each table has results of, (tables,)."""
        return (~np.isnan(self.scores).all(1)).sum(1)

    @property
    def means(self) -> NDArray[np.float64]:
        """(tables, entrants); a fit that failed counts as a score of zero."""
        return np.where(self._done, np.nan_to_num(self.scores), 0.0).sum(2) / self.splits[:, None]

    @property
    def spread(self) -> NDArray[np.float64]:
        """The standard deviation over the splits, (tables, entrants)."""
        deviation = (np.nan_to_num(self.scores) - self.means[:, :, None]) ** 2
        return np.sqrt(np.where(self._done, deviation, 0.0).sum(2) / np.maximum(self.splits - 1, 1)[:, None])

    @property
    def ranks(self) -> NDArray[np.float64]:
        """The average rank of each entrant over the tables, one is best; equals share theirs."""
        return rankdata(-self.means.round(12), axis=1).mean(0)

    @property
    def typical_seconds(self) -> NDArray[np.float64]:
        """The median over tables of the mean over splits, (entrants,)."""
        return np.median(np.nanmean(self.seconds, axis=2), axis=0)

    @property
    def worst_gaps(self) -> NDArray[np.float64]:
        """(entrants,); NaN for those that prove nothing."""
        proven = ~np.isnan(self.gaps).all((0, 2))
        return np.where(proven, np.nan_to_num(self.gaps, nan=-np.inf).max((0, 2)), np.nan)

    @property
    def _done(self) -> NDArray[np.bool_]:
        """(tables, 1, splits): where there are results."""
        return np.asarray(~np.isnan(self.seconds).all(1, keepdims=True))


def _number(value: float | None) -> float:
    return np.nan if value is None else value
