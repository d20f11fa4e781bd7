"""Whether this process works with others, known to everything below without being handed down."""

from __future__ import annotations

import builtins
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from provenet.ranks.group import Ranks

T = TypeVar("T")

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
        _meet()
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


def _meet() -> None:
    """Begin the group; after a restart under another name, for the store still has the addresses of those who are gone
    (pytorch/pytorch#135712)."""
    store, rank, world = next(dist.rendezvous("env://"))
    fresh = dist.PrefixStore(f"provenet-{restart_count()}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=world)


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


@contextmanager
def alone() -> Iterator[None]:
    """While this lasts, this process works as if there were no others: it does not know what they do meanwhile."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def each_alone(work: Callable[[], T]) -> T:
    """What each process makes of its own rows; what goes wrong in one, with the data, say, goes wrong in all."""
    ranks = current()
    if ranks is None:
        return work()
    made, failed = _tried(work)
    told = [each for each in ranks.told(_told(failed)) if each is not None]
    if failed is not None:
        raise failed
    if told:
        raise _error(told[0])
    return cast(T, made)


def by_first(work: Callable[[], Any]) -> Any:
    """What the first process alone does, and what comes of it, ready for JSON, or goes wrong, in all."""
    ranks = current()
    if ranks is None:
        return work()
    made, failed = _tried(work) if ranks.is_first else (None, None)
    made, told = ranks.first_says([made, _told(failed)])
    if failed is not None:
        raise failed
    if told is not None:
        raise _error(told)
    return made


def sent_by_first(read: Callable[[], bytes | None]) -> bytes | None:
    """The bytes that the first process alone reads, in all; what goes wrong with it goes wrong in all."""
    ranks, content = current(), list[bytes | None]()
    by_first(lambda: content.append(read()))
    found = content[0] if content else None
    return found if ranks is None else ranks.first_sends(found)


def _tried(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        with alone():
            return work(), None
    except (ValueError, OSError, MemoryError) as error:
        return None, error


def _told(error: Exception | None) -> list[str] | None:
    if error is None:
        return None
    kinds = (each for each in type(error).__mro__ if each.__module__ == "builtins")
    return [next(each.__name__ for each in kinds if not issubclass(each, UnicodeError)), str(error)]


def _error(told: list[str]) -> Exception:
    """Another process's, as one of this one's."""
    kind, message = told
    error: Exception = getattr(builtins, kind)(message)
    return error


def interrupted() -> bool:
    """Whether this process has been told of a Ctrl-C, which all have yet to agree on."""
    ranks = current()
    return ranks is not None and ranks.interrupted


def is_first() -> bool:
    """Whether this process writes and speaks."""
    ranks = current()
    return ranks is None or ranks.is_first


def total(value: float) -> float:
    """Of what all processes say."""
    ranks = current()
    return value if ranks is None else float(sum(ranks.told(value)))


def joined_digests(digests: list[bytes]) -> list[bytes]:
    """Of what each process knows of the same things, digests of one length: what all know, one after the other."""
    ranks = current()
    if ranks is None or not digests:
        return digests
    numbers = torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.uint8).view(len(digests), -1)
    return [row.numpy().tobytes() for row in torch.cat(ranks.gathered(numbers), dim=1)]


def torchrun_name() -> str | None:
    """What tells this start of torchrun from others, and its restarts of this process do not change."""
    return f"{os.environ['TORCHELASTIC_RUN_ID']}, process {os.getppid()}" if started_by_torchrun() else None


def restart_count() -> int:
    """How often torchrun has started this process anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


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
