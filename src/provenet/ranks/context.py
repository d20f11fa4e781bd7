"""Whether this process works with others, known to everything below without being handed down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from provenet.ranks.group import Ranks

_CURRENT: ContextVar[Ranks | None] = ContextVar("ranks", default=None)


def current() -> Ranks | None:
    """The processes that this one has joined; None: it is alone with its data."""
    return _CURRENT.get()


def started_by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def joined() -> Iterator[Ranks]:
    """While this lasts, problems are of the rows of all processes: those of torch.distributed's default group, which is
    begun here if torchrun started this one and nobody has.

    A process has one thread: with shards of a size that is the same whatever the number of processes, more processes
    are what more cores are for, and sums do not hang on the number of threads.
    """
    begun = False
    if not dist.is_initialized() and started_by_torchrun():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        begun = True
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    token = _CURRENT.set(Ranks())
    try:
        yield _CURRENT.get() or Ranks()
    finally:
        _CURRENT.reset(token)
        torch.set_num_threads(threads)
        if begun:
            dist.destroy_process_group()


def least(value: float) -> float:
    """Of what the processes say: what one of them cannot afford, none does."""
    ranks = current()
    return value if ranks is None else ranks.least(value)


def first_says(value: Any) -> Any:
    """What the first process says, ready for JSON."""
    ranks = current()
    return value if ranks is None else ranks.first_says(value)


def anywhere(flags: Tensor) -> Tensor:
    """Where any process has a true one, (m,) bool."""
    ranks = current()
    return flags if ranks is None else ranks.anywhere(flags)
