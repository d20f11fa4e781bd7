"""Tables of numbers and words with gaps → tables of numbers, by scikit-learn's transformers, kept as JSON.

A model folder holds what was learnt: fill values and categories.  The transformers are rebuilt of them, for the fit as
well, so that what is loaded does what was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from provenet.data.table import Table, listed
from provenet.memory import check_fits


class Asked(NamedTuple):
    """What may be done to columns that are not all numbers."""

    impute: bool = False
    one_hot: bool = False


@dataclass(frozen=True)
class Preparation:
    """``numbers`` and ``words``: the columns, by name; ``fills``: what stands for a missing entry, None: nothing does;
    ``categories``: of each column of words, one new column each."""

    numbers: tuple[str, ...]
    words: tuple[str, ...] = ()
    fills: Mapping[str, Any] | None = None
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Table, columns: Sequence[str], asked: Asked, rows: NDArray[Any]) -> Preparation:
        """Learnt from some rows of the columns; a column is one of words if any row of the table has one there."""
        words = tuple(name for name in columns if asked.one_hot and table.has_words(name))
        kinds = cls(tuple(name for name in columns if name not in words), words, {} if asked.impute else None)
        cells = kinds._cells(table)[rows]
        for name, column in zip((*kinds.numbers, *words), cells.T, strict=True):
            if asked.impute and all(_missing(value) for value in column):
                raise ValueError(f"{table.path}: column {name!r} has no value to learn from; leave it out (--drop).")
        learnt = kinds._transformer(None).fit(cells).named_transformers_
        fills, known = kinds.fills, {}
        if asked.impute:
            found = [learnt[part]["simpleimputer"].statistics_ for part in ("numbers", "words") if part in learnt]
            fills = {name: _plain(v) for name, v in zip((*kinds.numbers, *words), np.concatenate(found), strict=True)}
        if words:
            known = {name: tuple(map(str, v)) for name, v in zip(words, learnt["words"][-1].categories_, strict=True)}
        return cls(kinds.numbers, words, fills, known)

    def apply(self, table: Table) -> tuple[NDArray[np.float64], list[str]]:
        """(n, columns) of `names`, and what is to be said of entries that were not there in the fit."""
        cells = self._cells(table)
        width = len(self.names) * 8
        check_fits(width * len(cells), f"{table.path}: its columns as numbers", "Leave out columns of many categories.")
        example = [*(0.0 for _ in self.numbers), *(self.categories[name][0] for name in self.words)]
        if self.fills is not None:
            example = [self.fills[name] for name in (*self.numbers, *self.words)]
        ready = self._transformer(self.categories).fit(np.array([example], dtype=object)).transform(cells)
        return np.asarray(ready, dtype=np.float64), [
            note for name in self.words for note in self._strangers(table, name)
        ]

    @property
    def names(self) -> list[str]:
        """Of the columns that come out."""
        return [*self.numbers, *(f"{name}={value}" for name in self.words for value in self.categories[name])]

    def _strangers(self, table: Table, name: str) -> list[str]:
        known = set(self.categories[name])
        strange = [word for word in table.words(name, missing=True) if word is not None and word not in known]
        if not strange:
            return []
        shown = listed(dict.fromkeys(strange), 3)
        return [
            f"column {name!r}: {len(strange)} of {table.n_rows} entries are none that training had, and are ignored: "
            f"{shown}."
        ]

    def _cells(self, table: Table) -> NDArray[Any]:
        """(n, columns), numbers first; nan and None where an entry is missing and may be."""
        gaps = self.fills is not None
        columns = [*table.columns_of_numbers(self.numbers, missing=gaps)]
        columns += [table.words(name, missing=gaps) for name in self.words]
        cells = np.empty((table.n_rows, len(columns)), dtype=object)
        for k, column in enumerate(columns):
            cells[:, k] = column
        return cells

    def _transformer(self, categories: Mapping[str, Sequence[str]] | None) -> ColumnTransformer:
        a, b = len(self.numbers), len(self.words)
        number: list[Any] = [FunctionTransformer(_as_floats)]
        word: list[Any] = []
        if self.fills is not None:
            number.append(SimpleImputer(strategy="median"))
            word.append(SimpleImputer(missing_values=None, strategy="most_frequent"))
        known: Any = "auto" if categories is None else [np.array(categories[name], dtype=object) for name in self.words]
        word.append(OneHotEncoder(categories=known, handle_unknown="ignore", sparse_output=False))
        parts = [("numbers", make_pipeline(*number), slice(0, a)), ("words", make_pipeline(*word), slice(a, a + b))]
        return ColumnTransformer([part for part, size in zip(parts, (a, b), strict=True) if size])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "numbers": list(self.numbers),
            "words": list(self.words),
            "fills": None if self.fills is None else dict(self.fills),
            "categories": {name: list(values) for name, values in self.categories.items()},
        }

    @staticmethod
    def from_dict(saved: Any) -> Preparation:
        """ValueError for what `to_dict` never writes."""
        try:
            numbers, words, fills = saved["numbers"], saved["words"], saved["fills"]
            categories = {name: saved["categories"][name] for name in words}
            sound = all(map(_are_words, (numbers, words, *categories.values()))) and all(categories.values())
            if fills is not None:
                sound &= all(isinstance(fills[name], (int, float)) and isfinite(fills[name]) for name in numbers)
                sound &= all(isinstance(fills[name], str) for name in words)
        except (KeyError, TypeError):
            sound = False
        if not sound:
            raise ValueError("source: what was done to columns before the fit is not told as it should be.")
        return Preparation(tuple(numbers), tuple(words), fills, categories)


def _are_words(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _as_floats(cells: NDArray[Any]) -> NDArray[np.float64]:
    return cells.astype(np.float64)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
