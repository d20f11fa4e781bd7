"""Processes that work on one problem, each with rows of its own: what one knows of the others.

Every process does the same calls in the same order; what they decide by must be the same for all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from provenet.ranks.partition import Partition

_PIECE = 2**20  # numbers sent at a time, where all rows pass by


class Ranks:
    """The processes of torch.distributed's default group; one alone, where there is none."""

    def __init__(self) -> None:
        there = dist.is_available() and dist.is_initialized()
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if there else (0, 1)
        self.sent = 0  # bytes to all the others
        self.interrupted = False  # by Ctrl-C: runs end at their next look, all together

    def __deepcopy__(self, _: Any) -> Ranks:
        return self

    def rows(self, n: int) -> slice:
        """Which of n rows are this process's, as problems cut them."""
        return Partition(n, self.world).rows_of(self.rank)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def gathered(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, all of one shape."""
        if self.world == 1:
            return [tensor]
        tensor = tensor.contiguous()
        everywhere = [torch.empty_like(tensor) for _ in range(self.world)]
        with _others():
            dist.all_gather(everywhere, tensor)
        self.sent += (self.world - 1) * tensor.nbytes
        return everywhere

    def exchanged(self, tensor: Tensor, other: int) -> Tensor:
        """What another process has in place of this one's, which it gets."""
        theirs = torch.empty_like(tensor)
        with _others():
            both = [dist.P2POp(dist.isend, tensor, other), dist.P2POp(dist.irecv, theirs, other)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
        self.sent += tensor.nbytes
        return theirs

    def least(self, value: float) -> float:
        return min(self._numbers(value))

    def largest(self, value: float) -> float:
        return max(self._numbers(value))

    def _numbers(self, value: float) -> list[float]:
        return [float(one) for one in self.gathered(torch.tensor(value, dtype=torch.float64))]

    def anywhere(self, flags: Tensor) -> Tensor:
        """Where any process has a true one, (m,) bool."""
        return torch.stack(self.gathered(flags.to(torch.uint8))).any(0)

    def told(self, value: Any) -> list[Any]:
        """What every process says, ready for JSON, in the order of their ranks."""
        if self.world == 1:
            return [value]
        text = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [int(size) for size in self.gathered(torch.tensor(len(text)))]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(text)] = text
        texts = [part[:size].numpy().tobytes() for part, size in zip(self.gathered(padded), sizes, strict=True)]
        return [json.loads(text) for text in texts]

    def first_says(self, value: Any) -> Any:
        """What the first process says, ready for JSON."""
        return self.told(value if self.is_first else None)[0]

    def first_sends(self, content: bytes | None) -> bytes | None:
        """The bytes that the first process has, in all; None: it has none."""
        size = self.first_says(None if content is None else len(content))
        if self.world == 1 or size is None:
            return content
        numbers = torch.zeros(size, dtype=torch.uint8)
        if self.is_first and content:
            numbers = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        with _others():
            dist.broadcast(numbers, 0)
        return numbers.numpy().tobytes()

    def check_same(self, *tensors: Tensor) -> None:
        """What all processes have made of the same numbers must be the same, or they are of different problems."""
        total = blake2b(digest_size=16)
        for tensor in tensors:
            total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        if len(set(self.told(total.hexdigest()))) > 1:
            raise RuntimeError(
                "ranks: the processes have come apart: their CPUs or libraries round differently. Start them on "
                "machines of one kind, with the same settings of BLAS."
            )

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()

    def collected(self, rows: Tensor) -> Iterator[Tensor]:
        """On the first process the rows (n, …) of all, in order, flat and some numbers at a time; nothing elsewhere."""
        sizes = [int(size) for size in self.gathered(torch.tensor(rows.numel()))]
        flat = rows.detach().contiguous().flatten()
        if self.is_first:
            yield from flat.split(_PIECE)
        for rank in range(1, self.world):
            for start in range(0, sizes[rank], _PIECE):
                size = min(_PIECE, sizes[rank] - start)
                if self.is_first:
                    piece = flat.new_empty(size)
                    dist.recv(piece, rank)
                    yield piece
                elif self.rank == rank:
                    dist.send(flat[start : start + size], 0)

    def whole(self, rows: Tensor) -> Tensor | None:
        """The rows (n, …) of all processes, on the first one; None elsewhere."""
        pieces = list(self.collected(rows))
        return torch.cat(pieces).view(-1, *rows.shape[1:]) if self.is_first else None

    def moved(self, rows: Tensor, counts: list[int], wanted: list[slice]) -> Tensor:
        """This process's ``wanted`` rows of all, where each has so many (``counts``) of them in the order of ranks."""
        begins = [sum(counts[:rank]) for rank in range(self.world)]
        mine, begin = wanted[self.rank], begins[self.rank]
        if all(want == slice(b, b + c) for want, b, c in zip(wanted, begins, counts, strict=True)):
            return rows
        out = rows.new_empty(mine.stop - mine.start, *rows.shape[1:])
        pending = []
        for other in range(self.world):
            give = _common(wanted[other], slice(begin, begin + counts[self.rank]))
            take = _common(mine, slice(begins[other], begins[other] + counts[other]))
            if other == self.rank:
                out[give.start - mine.start : give.stop - mine.start] = rows[give.start - begin : give.stop - begin]
                continue
            if take.stop > take.start:
                pending.append(dist.irecv(out[take.start - mine.start : take.stop - mine.start], other))
            if give.stop > give.start:
                pending.append(dist.isend(rows[give.start - begin : give.stop - begin].contiguous(), other))
        for one in pending:
            if one is not None:
                one.wait()
        return out


@contextmanager
def _others() -> Iterator[None]:
    """What goes wrong in here is that another process has gone, whatever torch calls it."""
    try:
        yield
    except RuntimeError as error:
        told = str(error).splitlines()[0]
        raise ConnectionError(
            f"ranks: another process has ended or is out of step; see what it said ({told})."
        ) from error


def _common(one: slice, other: slice) -> slice:
    start = max(one.start, other.start)
    return slice(start, max(start, min(one.stop, other.stop)))
