"""Named columns from files: CSV, Parquet, NPY and NPZ.  Errors name the file, the line and the column."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from provenet.data.arrays import read_array
from provenet.data.cells import as_numbers, is_date, is_missing, is_number, is_truth
from provenet.files import check_regular
from provenet.memory import check_fits
from provenet.wrong_use import WrongUse

FORMATS = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz")
STDIN = Path("-")
UNNAMED = "unnamed"  # a first column without a name
_WRONG_SHOWN = 12
_FILL = "fill it (fit --impute) or drop the row; targets are not filled."
_DECIMAL_COMMA = re.compile(r"^\s*[+-]?\d*,?\d+([eE][+-]?\d+)?\s*$")
_OF_TEXT = 12  # bytes in memory for each of a CSV file: cells are Python's strings until they are numbers
_DELIMITERS = (",", "\t", ";", "|")
_QUOTED = re.compile(r'"[^"]*"')
_LOOKED_AT = 20  # lines that tell what parts fields


class ColumnError(WrongUse):
    """A column that was asked for and is not there, or cannot be what it is asked to be."""


@dataclass(frozen=True)
class Table:
    """Columns of one length.  ``lines`` says in which line (or row) of the file each entry stands, counted from one."""

    path: Path
    columns: dict[str, NDArray[Any]]
    lines: NDArray[np.int64]
    line_word: str = "line"
    named: bool = True  # False: the file has no names, and columns are called 0, 1, 2, …

    @property
    def n_rows(self) -> int:
        return len(self.lines)

    def resolve(self, name: str) -> str:
        """The name of the column a user calls ``name``: its name, or its position (−1 is the last)."""
        if name in self.columns:
            return name
        names = list(self.columns)
        try:
            return names[int(name)]
        except (ValueError, IndexError):
            header = "" if self.named else " Its first line was read as numbers; --header takes it for names."
            raise ColumnError(f"{self.path}: there is no column {name!r}; it has {listed(names)}.{header}") from None

    def numbers(self, name: str, missing: bool = False) -> NDArray[np.float64]:
        """A column of finite numbers, (n,), truths as ones; with ``missing``, nan where there is none."""
        values = self.columns[name]
        numbers = values.astype(np.float64) if values.dtype.kind in "biuf" else self._parse(name, values, missing)
        bad = np.flatnonzero(np.isinf(numbers) if missing else ~np.isfinite(numbers))
        if bad.size:
            raise ValueError(f"{self._place(name, bad[0])}: the value is missing or not finite; {_FILL}")
        return numbers

    def weights(self, name: str) -> NDArray[np.float64]:
        """A column of numbers from zero on, (n,)."""
        weights = self.numbers(name)
        if (weights < 0).any():
            raise ValueError(f"{self._place(name, (weights < 0).argmax())}: a weight must not be negative.")
        return weights

    def words(self, name: str, missing: bool = False) -> NDArray[Any]:
        """A column of categories as text, (n,); with ``missing``, None where there is none."""
        words = np.array([None if is_missing(v) else str(v).strip() for v in self.columns[name]] + [None], dtype=object)
        gaps = [i for i, word in enumerate(words[:-1]) if word is None]
        if gaps and not missing:
            raise ValueError(f"{self._place(name, gaps[0])}: the value is missing; {_FILL}")
        return words[:-1]

    def has_words(self, name: str) -> bool:
        """Whether entries are neither numbers nor truths nor dates: categories."""
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return False
        present = [value for value in values if not is_missing(value)]
        return bool(present) and as_numbers(present) is None and not all(is_date(value) for value in present)

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Columns of finite numbers, (n, columns); ValueError names all that are not, at once."""
        return np.stack(self.columns_of_numbers(names), axis=1)

    def columns_of_numbers(self, names: Sequence[str], missing: bool = False) -> list[NDArray[np.float64]]:
        """Each as `numbers` has it; ValueError names all that are none, at once."""
        found, wrong = [], []
        for name in names:
            try:
                found.append(self.numbers(name, missing))
            except ValueError as error:
                wrong.append(error)
        if len(wrong) == 1:
            raise wrong[0]
        if wrong:
            each = [str(error).removeprefix(f"{self.path}: ").split(";")[0] for error in wrong[:_WRONG_SHOWN]]
            more = "; …" if len(wrong) > _WRONG_SHOWN else ""
            raise ValueError(
                f"{self.path}: {len(wrong)} of {len(names)} columns are not all numbers: {'; '.join(each)}{more}. "
                "Fill (fit --impute) or encode them (--one-hot), or leave them out (--drop)."
            )
        return found

    def labels(self, name: str) -> NDArray[Any]:
        """A column of labels, (n,): whole numbers and booleans as such, other things as text."""
        values = self.columns[name]
        if values.dtype.kind in "biu":
            return values
        if values.dtype.kind == "f" or self.is_numeric(name):
            numbers = self.numbers(name)
            whole = np.abs(numbers).max() < 2**53 and bool((numbers == np.round(numbers)).all())
            return numbers.astype(np.int64) if whole else numbers
        missing = [i for i, value in enumerate(values) if is_missing(value)]
        if missing:
            raise ValueError(f"{self._place(name, missing[0])}: the label is missing; fill it or drop the row.")
        return np.array([str(value) for value in values])

    def is_numeric(self, name: str) -> bool:
        """Whether every entry that is there is a number."""
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return True
        present = [value for value in values if not is_missing(value)]
        try:
            np.array(present, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        return bool(present)

    def _parse(self, name: str, values: NDArray[Any], missing: bool) -> NDArray[np.float64]:
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            there = np.array([not is_missing(value) for value in values], dtype=bool)
        numbers = as_numbers(values[there].tolist()) if missing or there.all() else None
        if numbers is not None:
            filled = np.full(len(values), np.nan)
            filled[there] = numbers
            return filled
        none = [i for i, value in enumerate(values) if there[i] and not is_number(value)]
        strange = {i for i in none if not is_truth(values[i])} or none  # of a column of truths, what is none
        truths = as_numbers(values[there].tolist()) is not None
        for i, value in enumerate(values):  # find the first that is no number, to name it
            if not there[i]:
                if missing:
                    continue
                raise ValueError(f"{self._place(name, i)}: the value is missing; {_FILL}")
            if is_date(value):
                raise ValueError(
                    f"{self._place(name, i)}: {str(value)!r} is a date; make numbers of it (days since a day, the "
                    "month, the weekday) or leave it out (--drop)."
                )
            if not truths and i in strange:
                raise ValueError(
                    f"{self._place(name, i)}: {value!r} is not a number; make the column numbers (fit --one-hot) or "
                    "leave it out (--drop)."
                )
        raise ValueError(f"{self.path}: column {name!r} is not a column of numbers.")

    def _place(self, name: str, row: Any) -> str:
        return f"{self.path}: column {name!r}, {self.line_word} {self.lines[row]}"


def read_table(path: str | Path, header: bool | None = None) -> Table:
    """The columns of a CSV (``header`` None: found out), Parquet or two-dimensional NPY file."""
    path = Path(path)
    size = 0 if path == STDIN else check_regular(path)
    suffix = ".csv" if path == STDIN else path.suffix.lower()
    if suffix in (".csv", ".tsv", ".txt"):
        check_fits(_OF_TEXT * size, f"{path}: reading it", "Store it as NPY or NPZ, which need a tenth.")
        table = _read_csv(path, header)
    elif suffix == ".parquet":
        table = _read_parquet(path)
    elif suffix == ".npy":
        table = _from_matrix(path, read_array(path))
    else:
        raise ValueError(f"{path}: files of type {suffix or '(none)'} cannot be read; use {', '.join(FORMATS)}.")
    if table.n_rows == 0:
        raise ValueError(f"{path}: it has no rows of data.")
    return table


def _read_csv(path: Path, header: bool | None) -> Table:
    try:
        text = (sys.stdin.buffer.read() if path == STDIN else path.read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: it is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8."
        ) from None
    file = io.StringIO(text, newline="")
    delimiter = _delimiter(text)
    rows, lines = _rows(path, csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True))
    if not rows:
        raise ValueError(f"{path}: it is empty.")
    if header is None:
        named = has_names(rows if delimiter == "," else [[_with_point(cell) for cell in row] for row in rows])
    else:
        named = header
    while named and len(rows[0]) > 1 and not any(row[-1].strip() for row in rows):
        rows = [row[:-1] for row in rows]  # lines that end in a delimiter have no column behind it
    names = _names(rows[0]) if named else [str(i) for i in range(len(rows[0]))]
    _check_names(path, names)
    body, lines = (rows[1:], lines[1:]) if named else (rows, lines)
    cells: Iterable[tuple[str, ...]] = zip(*body, strict=True) if body else (() for _ in names)
    if delimiter != ",":
        cells = map(_with_points, cells)
    columns = {name: np.array(column, dtype=object) for name, column in zip(names, cells, strict=True)}
    return Table(path, columns, np.array(lines, dtype=np.int64), named=named)


def has_names(rows: list[list[str]]) -> bool:
    """Whether the first row is names.  A word above numbers says yes; without one, a number above numbers says no, and
    so does a word that is among those below it."""
    if len(rows) == 1:
        return not all(is_number(cell) for cell in rows[0])
    data = False
    for first, *below in zip(*rows, strict=True):
        numbers = all(is_number(cell) or is_missing(cell) for cell in below)
        if numbers and not is_number(first) and not is_missing(first):
            return True
        data |= is_number(first) if numbers else first in below
    return not data


def _names(row: list[str]) -> list[str]:
    """As they are written; a first one without a name is what pandas and R write above row numbers."""
    names = [name.strip() for name in row]
    return [names[0] or (UNNAMED if len(names) > 1 else ""), *names[1:]]


def _with_points(column: tuple[str, ...]) -> tuple[str, ...]:
    """Numbers with decimal commas, in a file where commas do not part fields, with points."""
    if not any("," in cell for cell in column):
        return column
    if not all(_DECIMAL_COMMA.match(cell) or is_missing(cell) for cell in column):
        return column
    return tuple(map(_with_point, column))


def _with_point(cell: str) -> str:
    return cell.replace(",", ".") if _DECIMAL_COMMA.match(cell) else cell


def _rows(path: Path, reader: Any) -> tuple[list[list[str]], list[int]]:
    """Rows that are not blank, all of one length, and the line each ends in."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row) and len(row) <= 1:
                continue
            if rows and len(row) != len(rows[0]):
                raise ValueError(
                    f"{path}: line {reader.line_num} has {len(row)} fields, but line {lines[0]} has {len(rows[0])}."
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num} is not valid CSV ({error}).") from None
    return rows, lines


def _check_names(path: Path, names: list[str]) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name:
            raise ValueError(f"{path}: the header has no name for column {i}, counted from 0; give it one.")
        if name in seen:
            raise ValueError(f"{path}: two columns are called {name!r}; rename one.")
        seen.add(name)


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(f"{path}: reading Parquet needs the package pyarrow: pip install 'provenet[data]'.") from None
    try:
        about = parquet.read_metadata(path)
        check_fits(about.num_rows * about.num_columns * 16, f"{path}: reading it", "Store fewer rows or columns.")
        table = parquet.read_table(path)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: it is not a readable Parquet file ({error}).") from None
    _check_names(path, table.column_names)
    columns = {name: _from_arrow(table.column(name)) for name in table.column_names}
    return Table(path, columns, np.arange(1, table.num_rows + 1), line_word="row")


def _from_arrow(column: Any) -> NDArray[Any]:
    """Numbers as numbers where none is missing; anything else as Python objects, None where missing."""
    array = column.to_numpy()
    return array if array.dtype.kind in "biuf" else np.array([*column.to_pylist(), None], dtype=object)[:-1]


def _from_matrix(path: Path, matrix: NDArray[Any]) -> Table:
    if matrix.ndim != 2:
        raise ValueError(f"{path}: a table needs two dimensions, this array has shape {matrix.shape}.")
    columns = {str(i): matrix[:, i] for i in range(matrix.shape[1])}
    return Table(path, columns, np.arange(1, matrix.shape[0] + 1), line_word="row", named=False)


def _delimiter(text: str) -> str:
    """What parts fields: what every line has as often; commas that all are as well, unless they are those of numbers;
    else what the first line has most of."""
    lines = (_QUOTED.sub("", line) for line in io.StringIO(text) if line.strip())
    first, *others = list(islice(lines, _LOOKED_AT)) or [""]
    even = [own for own in _DELIMITERS if own in first and all(line.count(own) == first.count(own) for line in others)]
    if not others or not even:
        return max(_DELIMITERS, key=first.count)
    with_commas = [field for line in others for field in line.split(even[-1]) if "," in field]
    return "," if "," in even and not all(map(_DECIMAL_COMMA.match, with_commas)) else even[-1]


def listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    rest = f", … ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + rest
