"""How much is worked on at a time: one function of a budget, and the budgets there are.

A budget is in bytes, of what one batch makes.  Whatever the batches, results are the same up to rounding.

    with batches.within(10**9):
        ...            # a batch takes a small part of a gigabyte, whatever its budget
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MIB = 2**20

CORE = 1 * _MIB  # stays in the cache of one core
CACHE = 2 * _MIB  # is made, and read while it is in the cache
TILE = 4 * _MIB  # the same, where making it has a cost of its own for each tile
BATCH = 8 * _MIB  # a batch's activations
PASS = 32 * _MIB  # what a pass over the data makes of some samples
WAVE = 64 * _MIB  # the same, where a pass has a cost of its own for each batch
BLOCK = 128 * _MIB  # a block of a table too large to be formed
BASIS = 256 * _MIB  # vectors of a Krylov basis, or all that a table's rows are asked at once
KEPT_INPUTS = 256 * _MIB  # inputs up to this are prepared once and kept, larger ones batch by batch
KEPT = 512 * _MIB  # what is made of inputs and gates is kept up to this
MOST_KEPT = 2048 * _MIB  # or up to this, where it is a small share of the free memory

_LIMIT: ContextVar[int] = ContextVar("limit", default=sys.maxsize)  # of all memory that is allocated
BATCHES = 32  # a batch takes one part in so many of a limit: several are alive at a time, of several arrays each


@contextmanager
def within(limit: int | None) -> Iterator[None]:
    """What is done in here has so many bytes, and no more than whoever called has; None: as many as they have."""
    token = _LIMIT.set(min(sys.maxsize if limit is None else limit, _LIMIT.get()))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def share(parts: int) -> int:
    """One of so many parts of the limit, if there is one; else more than anyone has."""
    return _LIMIT.get() // parts


def count(numbers: int, budget: int, itemsize: int = 8) -> int:
    """How many can be worked on at a time, one at least, each making so many ``numbers`` of ``itemsize`` bytes."""
    return max(1, min(budget, share(BATCHES)) // (max(numbers, 1) * itemsize))


def slices(total: int, numbers: int, budget: int, itemsize: int = 8, start: int = 0) -> list[slice]:
    """All from ``start`` to ``total``, `count` at a time."""
    size = count(numbers, budget, itemsize)
    return [slice(i, min(i + size, total)) for i in range(start, total, size)]
