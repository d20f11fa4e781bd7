"""The right number of threads: two on small matrices can be many times slower than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

from provenet.problem import Program

_WORTH_SHARING = 2e8  # multiply-adds of one matrix product


def product_size(program: Program) -> float:
    """Multiply-adds of A(Z)."""
    return program.operator.product_size


@contextmanager
def right_threads(work: float) -> Iterator[None]:
    """One thread where the largest product has few multiply-adds (``work``), torch's own number where it has many; put
    back afterwards.

    The BLAS of numpy and scipy gets one thread always: its waiting threads would fight torch's for the cores.
    """
    before = torch.get_num_threads()
    threads = before if work >= _WORTH_SHARING else 1
    torch.set_num_threads(threads)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _controller() -> ThreadpoolController:
    """Finding the libraries takes milliseconds: once a process."""
    return ThreadpoolController()
