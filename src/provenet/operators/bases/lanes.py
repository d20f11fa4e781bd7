"""Neurons on features that are there: products of whole gates at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from provenet import batches
from provenet.variable import ByGate


class Lanes:
    """Neurons side by side behind every gate that has some, padded with zeros to the widest.

    A lane is one pooled cell of one gate: features (n, P, a, p) are K·a matrices (n, p), K the gates in use, each for
    w neurons.
    """

    def __init__(self, features: Tensor, gate: Tensor):
        self.features, self.cells = features, features.shape[2]
        self.gates = ByGate(gate)
        self.names = self.gates.names

    def spread(self, weights: Tensor) -> Tensor:
        """(N, a, m), or (N, 1, m) for all cells alike, → (K·a, w, m)."""
        return self.gates.gather(weights.expand(-1, self.cells, -1)).transpose(1, 2).flatten(0, 1)

    def gather(self, lanes: Tensor) -> Tensor:
        """(K·a, w, m) → (N, a, m)."""
        return self.gates.scatter(lanes.view(len(self.names), self.cells, self.gates.width, -1).transpose(1, 2))

    def tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Some rows, and their features by lane (K·a, b, p)."""
        n, P, a, p = self.features.shape
        for rows in batches.slices(n, len(self.names) * a * p, batches.CACHE, self.features.element_size()):
            some = self.features[rows] if len(self.names) == P else self.features[rows][:, self.names]
            yield rows, some.flatten(1, 2).transpose(0, 1)


def forward(features: Tensor, gate: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Σ_j F_{k(j)} u_j v_j, (n, c), for left (N, p) and right (N, a, c)."""
    lanes = Lanes(features, gate)
    first, second = lanes.spread(left.unsqueeze(1)), lanes.spread(right).flatten(0, 1)
    out = features.new_empty(len(features), second.shape[1])
    for rows, some in lanes.tiles():
        hidden = torch.bmm(first, some.transpose(1, 2)).flatten(0, 1)  # (K·a·w, b)
        torch.mm(hidden.T, second, out=out[rows])
    return out


def adjoint(features: Tensor, gate: Tensor, left: Tensor, right: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
    """(Σ_i F_{k(j)}ᵀ R v_j, (F_{k(j)} u_j)ᵀ R), (N, p) and (N, a, c)."""
    lanes = Lanes(features, gate)
    first, second = lanes.spread(left.unsqueeze(1)), lanes.spread(right)
    flat = second.flatten(0, 1)
    towards_left, towards_right = first.new_zeros(first.shape), flat.new_zeros(flat.shape)
    for rows, some in lanes.tiles():
        hidden = torch.bmm(first, some.transpose(1, 2)).flatten(0, 1)
        towards_right.addmm_(hidden, residual[rows])
        back = (flat @ residual[rows].T).view(*first.shape[:2], -1)  # (K·a, w, b)
        towards_left.baddbmm_(back, some)
    return lanes.gather(towards_left).sum(1), lanes.gather(towards_right.view(second.shape))


def hidden(features: Tensor, gate: Tensor, left: Tensor) -> Tensor:
    """F_{k(j)} u_j, (N, a, n)."""
    lanes = Lanes(features, gate)
    first = lanes.spread(left.unsqueeze(1))
    tiles = [torch.bmm(first, some.transpose(1, 2)) for _, some in lanes.tiles()]  # each (K·a, w, b)
    return lanes.gather(torch.cat(tiles, 2))
