"""What an entry of a table is: missing, a number, a truth, a date."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GLANCE = 1000  # rows that tell most columns from identifiers
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_TRUTHS = (("false", "true"), ("no", "yes"))
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?\s?(Z|[+-]\d{2}:?\d{2})?)?$")


def is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return True
    return isinstance(value, str) and value.strip().lower() in _MISSING


def is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def is_date(value: Any) -> bool:
    """A day, or a moment, as ISO 8601 writes them."""
    return _DATE.match(str(value).strip()) is not None


def is_truth(value: Any) -> bool:
    """A word of some pair such as true and false."""
    return str(value).strip().lower() in {word for pair in _TRUTHS for word in pair}


def as_numbers(values: list[Any]) -> NDArray[np.float64] | None:
    """Numbers as they are, columns of true and false, or yes and no, as one and zero; None for anything else."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        words = [value.strip().lower() if isinstance(value, str) else value for value in values]
    for pair in _TRUTHS:
        if all(word in pair for word in words):
            return np.array([pair.index(word) for word in words], dtype=np.float64)
    return None


def like_identifiers(values: NDArray[Any], fewest: int = 20) -> str:
    """ "whole number" or "text" where every row has another one, as identifiers do; nothing where they do not."""
    if values.dtype.kind in "biuf":
        numbers = values[np.isfinite(values)]
        whole = len(numbers) >= fewest and bool((numbers == np.round(numbers)).all())
        return "whole number" if whole and len(np.unique(numbers)) == len(numbers) else ""
    first = list(map(str, values[:_GLANCE]))
    if len(set(first)) < len(first):
        return ""
    present = [value for value in values if not is_missing(value)]
    if len(present) < fewest or len(set(map(str, present))) < len(present):
        return ""
    found = as_numbers(present)
    if found is None:
        return "" if all(map(is_date, present)) else "text"
    return like_identifiers(found, fewest)
