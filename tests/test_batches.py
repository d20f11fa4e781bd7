from __future__ import annotations

import pytest

from provenet import batches


@pytest.mark.parametrize("total", [0, 1, 7, 100])
@pytest.mark.parametrize("numbers", [0, 1, 3, 10**9])
def test_slices_cover_all_once_within_the_budget(total: int, numbers: int) -> None:
    found = batches.slices(total, numbers, 80)
    assert [i for some in found for i in range(some.start, some.stop)] == list(range(total))
    assert all(8 * numbers * (some.stop - some.start) <= 80 or some.stop - some.start == 1 for some in found)


def test_numbers_of_half_the_size_are_twice_as_many() -> None:
    assert batches.count(10, 800, itemsize=4) == 2 * batches.count(10, 800, itemsize=8) == 20


def test_some_of_the_rows() -> None:
    assert batches.slices(10, 1, 24, start=4) == [slice(4, 7), slice(7, 10)]
