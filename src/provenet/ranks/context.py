"""Whether this process works with others, known to everything below without being handed down."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
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
    group = Ranks()
    token = _CURRENT.set(group)
    try:
        with _ctrl_c_of_all(group):
            yield group
    finally:
        _CURRENT.reset(token)
        torch.set_num_threads(threads)
        if begun:
            dist.destroy_process_group()


@contextmanager
def _ctrl_c_of_all(group: Ranks) -> Iterator[None]:
    """Ctrl-C is told to the others when all are at the same place; the second one ends this process."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return

    def told(number: int, frame: FrameType | None) -> None:
        if group.interrupted:
            signal.default_int_handler(number, frame)
        group.interrupted = True

    before = signal.signal(signal.SIGINT, told)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
