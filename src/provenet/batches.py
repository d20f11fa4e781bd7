"""How much is worked on at a time: one function of a budget, and the budgets there are.

A budget is in bytes, of what one batch makes.  Whatever the batches, results are the same up to rounding.
"""

from __future__ import annotations

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


def count(numbers: int, budget: int, itemsize: int = 8) -> int:
    """How many can be worked on at a time, one at least, each making so many ``numbers`` of ``itemsize`` bytes."""
    return max(1, budget // (max(numbers, 1) * itemsize))


def slices(total: int, numbers: int, budget: int, itemsize: int = 8, start: int = 0) -> list[slice]:
    """All from ``start`` to ``total``, `count` at a time."""
    size = count(numbers, budget, itemsize)
    return [slice(i, min(i + size, total)) for i in range(start, total, size)]
