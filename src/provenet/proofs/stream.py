"""Samples that come in batches, from arrays or from a loader, and may be gone over again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from provenet import batches
from provenet.data.validation import as_targets
from provenet.formulation.data import as_masked, as_masked_targets
from provenet.proofs.source import Raw
from provenet.scaling import Scaling
from provenet.statement import Statement


@dataclass(frozen=True)
class Batch:
    """X (b, …), Y (b, …, c) and mask (b, s), checked, in float64; rows (b,): their places in the first pass."""

    X: Tensor
    Y: Tensor
    mask: Tensor | None
    rows: Tensor

    def split(self, size: int) -> Iterator[Batch]:
        """The same samples, at most ``size`` at a time."""
        for i in range(0, len(self.rows), size):
            part = slice(i, i + size)
            yield Batch(self.X[part], self.Y[part], None if self.mask is None else self.mask[part], self.rows[part])


@dataclass
class Stream:
    """What a module with weights of sizes p and q sees of its data, some samples at a time.

    source: raw batches (X, Y) or (X, Y, mask), as often as asked.  ordered: every pass has the same order; else the
    first pass remembers a digest of each sample, and later ones must bring the same samples.  width: hidden values
    that are made of a row of Φ.  scaling: of raw samples and targets, where the module is one of standardised ones.
    n: the samples of the first pass.
    """

    statement: Statement
    p: int
    q: int
    source: Iterable[Raw]
    ordered: bool
    width: int = 1
    scaling: Scaling | None = None
    n: int | None = None
    _places: dict[bytes, list[int]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Batch]:
        first = self.n is None
        left = {key: list(places) for key, places in self._places.items()}
        total = 0
        for number, raw in enumerate(self.source):
            try:
                X, Y, mask = self._checked(raw)
            except ValueError as error:
                raise ValueError(f"data, batch {number}: {error}") from None
            rows = torch.arange(total, total + len(X))
            total += len(X)
            if not self.ordered:
                rows = self._placed(X, Y, mask, rows, None if first else left)
            yield from Batch(X, Y, mask, rows).split(self._size(X))
        if total == 0:
            raise ValueError("data: it holds no sample at all.")
        if first:
            self.n = total
        elif total != self.n:
            raise ValueError(f"data: the first pass had {self.n} samples, a later one {total}.")

    def outputs(self, X: Tensor) -> int:
        """c of a module with these weights on X."""
        block = self.statement.block
        groups = block.groups
        block.check(X, groups)
        c = self.q // block.weights(X, groups)[1] * groups
        needed = block.weights(X, c)
        if needed != (self.p, self.q):
            raise ValueError(
                f"X: on samples of shape {tuple(X.shape[1:])} the layers of block {block.name!r} have {needed[0]} "
                f"and {needed[1]} weights a neuron; the module's have {self.p} and {self.q}."
            )
        block.check(X, c)
        return c

    def _size(self, X: Tensor) -> int:
        """How many samples at a time, for hidden values of moderate size; more where A*Θ is large, as each part's is
        added to it."""
        numbers = self.statement.block.on(X, self.statement.block.groups).rho * self.width + X[0].numel()
        stack = 8 * self.width * self.p * self.q
        return batches.count(numbers, min(max(batches.PASS, stack), batches.BLOCK))

    def _checked(self, raw: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        if not isinstance(raw, (tuple, list)) or len(raw) not in (2, 3):
            found = f"{len(raw)} parts" if isinstance(raw, (tuple, list)) else type(raw).__name__
            raise ValueError(f"a batch is (X, Y) or (X, Y, mask), got {found}.")
        block, readout, loss = self.statement.block, self.statement.readout, self.statement.loss.name
        X, mask = as_masked(block, raw[0], raw[2] if len(raw) == 3 else None)
        c = self.outputs(X)
        Y = as_targets(raw[1], X.shape[0], loss, tokens=readout == "tokens", classes=c)
        if Y.shape[-1] != c:
            raise ValueError(f"Y: the module has {c} outputs, the targets {Y.shape[-1]}, shape {tuple(Y.shape)}.")
        X, Y = X.to(torch.float64), as_masked_targets(Y, mask, readout, loss)
        if self.scaling is not None:
            X, Y = self.scaling.samples(X, mask), self.scaling.targets(Y, mask)
        return X, Y, mask

    def _placed(
        self, X: Tensor, Y: Tensor, mask: Tensor | None, rows: Tensor, left: dict[bytes, list[int]] | None
    ) -> Tensor:
        """The first pass (``left`` is None) remembers each sample's place, later ones find it again."""
        keys = [_digest(X[i], Y[i], None if mask is None else mask[i], self.statement.readout) for i in range(len(X))]
        if left is None:
            for key, row in zip(keys, rows.tolist(), strict=True):
                self._places.setdefault(key, []).append(row)
            return rows
        try:
            return torch.tensor([left[key].pop() for key in keys])
        except (KeyError, IndexError):
            raise ValueError(
                "data: a later pass brings samples that the first did not. Shuffling is fine, but augmentation, "
                "dropped last batches and sampling with replacement must be off: a certificate is of fixed samples."
            ) from None


def _digest(x: Tensor, y: Tensor, mask: Tensor | None, readout: str) -> bytes:
    """What tells a sample from another.  Tokens that are not there do not count: a loader may fill up as it likes."""
    seen = hashlib.blake2b(y.numpy().tobytes(), digest_size=16)
    if mask is not None:
        x = x[mask]
        if readout == "tokens":
            seen.update(mask.numpy().tobytes())
    seen.update(x.contiguous().numpy().tobytes())
    return seen.digest()
