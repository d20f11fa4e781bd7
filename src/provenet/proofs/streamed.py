"""The operator of data that come in batches: each batch has the block's own operator, and A* is the sum of theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from provenet.blocks import Block, OnData
from provenet.data.validation import check_finite
from provenet.gates import Gates
from provenet.nn import TwoLayer
from provenet.operators import Operator
from provenet.operators.wrappers.shards import RowsInParts
from provenet.proofs.stream import Stream
from provenet.ranks.context import joined_digests
from provenet.space import Space


class OwnGates:
    """A module's gates as those of a program: every distinct gate vector, in the groups that have it.

    vectors: (m, p), None where the module has no gates.
    """

    def __init__(self, block: Block, module: TwoLayer):
        self.block = block
        self.vectors: Tensor | None = None
        N = module.first.shape[0]
        index = torch.zeros(N, dtype=torch.long)
        if module.gates is not None:
            check_finite(module.gates, "module.gates")
            if N == 0:
                raise ValueError("module: it has no neuron, so no gates to speak of; certify it on a problem that has.")
            self.vectors, index = torch.unique(module.gates, dim=0, return_inverse=True)
        group = module.get_buffer("group") if block.groups > 1 else torch.zeros(N, dtype=torch.long)
        self.of_neuron = group * self._in_group + index
        self._seen = [hashlib.blake2b() for _ in range(len(self))]

    @property
    def _in_group(self) -> int:
        return 1 if self.vectors is None else len(self.vectors)

    def __len__(self) -> int:
        return self.block.groups * self._in_group

    @property
    def used(self) -> tuple[Tensor | int, Tensor | None]:
        """The neurons' gate vectors (m, p), each once a group, and the group of each (m,), None: there is one.  As
        `pose` takes them: any number where the module has no gates; all gates in all groups where one has no neuron:
        more networks, so that what bounds them bounds those with these gates, too."""
        if self.vectors is None:
            return 1, None
        gates = torch.unique(self.of_neuron)
        if len(torch.unique(gates // self._in_group)) < self.block.groups:  # problems have gates in every group
            gates = torch.arange(len(self))
        return self.vectors[gates % self._in_group], gates // self._in_group if self.block.groups > 1 else None

    def on(self, data: OnData, again: bool = False) -> Gates:
        """These gates on a batch: groups·m of them.  again: an earlier pass found that rounding decides of none."""
        if self.vectors is None:
            return data.open_gates()
        vectors, B = self.vectors, len(data.groups)
        patterns = [rows.opened(vectors) if again else rows.decided(vectors) for rows in data.groups]
        group = torch.arange(B).repeat_interleave(self._in_group) if B > 1 else None
        return Gates(self.vectors.repeat(B, 1), torch.cat(patterns), group)

    def remember(self, gates: Gates) -> None:
        """Patterns of a batch of the first pass: gates that agree on all of them are one."""
        for seen, pattern in zip(self._seen, gates.patterns, strict=True):
            seen.update(np.packbits(pattern.numpy()).tobytes())

    def distinct(self) -> tuple[Tensor, Tensor]:
        """The gates to keep, one a pattern on the samples of all processes, and for every gate that is used its place
        among them."""
        if self.vectors is None:
            return torch.arange(len(self)), torch.arange(len(self))
        used = torch.unique(self.of_neuron).tolist()  # a gate of one group is none of another's
        seen = joined_digests([each.digest() for each in self._seen])
        keys = {k: (k // self._in_group, seen[k]) for k in used}
        first: dict[tuple[int, bytes], int] = {}
        kept = [k for k, key in keys.items() if first.setdefault(key, k) == k]
        order = {keys[k]: i for i, k in enumerate(kept)}
        place = torch.full((len(self),), -1)
        place[used] = torch.tensor([order[keys[k]] for k in used])
        return torch.tensor(kept), place


class StreamedOperator(RowsInParts):
    """gates: which of the module's gates are this operator's, (P,).  Inputs are divided by ``scale``.  It is made after
    a first pass, which has seen to it that rounding decides of no gate."""

    space = Space()

    def __init__(self, stream: Stream, own: OwnGates, gates: Tensor, output_shape: tuple[int, ...], scale: float):
        self.stream, self.own, self.gates, self.output_shape, self.scale = stream, own, gates, output_shape, scale
        self.n_gates, self.p, self.q = len(gates), stream.p, stream.q

    def parts(self) -> Iterator[tuple[Tensor, Operator]]:
        """A pass over the data: rows of the prediction, and their operator."""
        statement, c = self.stream.statement, self.output_shape[-1]
        for batch in self.stream:
            data = statement.block.on(batch.X, c, statement.readout, batch.mask)
            yield batch.rows, data.operator(self.own.on(data, again=True), self.scale).restrict(self.gates).once()

    def restrict(self, gates: Tensor) -> Self:
        return self._with(gates=self.gates[gates], n_gates=len(gates))

    def to(self, space: Space) -> Self:
        if space != self.space:
            raise ValueError(f"space: data in batches are judged on the CPU in float64 alone, not in {space}.")
        return self
