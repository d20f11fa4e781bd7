"""The right number of threads: two on small matrices can be many times slower than one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

from provenet.operators import Operator

_WORTH_SHARING = 3e7  # multiply-adds of one application of the operator


@contextmanager
def right_threads(operator: Operator) -> Iterator[None]:
    """One thread for small operators, torch's own number for large ones; put back afterwards."""
    before = torch.get_num_threads()
    work = operator.output_shape[0] * operator.n_gates * operator.p * operator.q
    threads = before if work >= _WORTH_SHARING else 1
    torch.set_num_threads(threads)
    try:
        with _controller().limit(limits=threads):
            yield
    finally:
        torch.set_num_threads(before)


@cache
def _controller() -> ThreadpoolController:
    """Finding the libraries takes milliseconds: once a process."""
    return ThreadpoolController()
