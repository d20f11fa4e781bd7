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
        self.gates = ByGate.of(gate)
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


class Pass:
    """Neurons (u_j, v_j), left (N, p) and right (N, a, c), through their lanes, and back."""

    def __init__(self, features: Tensor, gate: Tensor, left: Tensor, right: Tensor):
        self._lanes = Lanes(features, gate)
        self._first, self._second = self._lanes.spread(left.unsqueeze(1)), self._lanes.spread(right)
        self._flat = self._second.flatten(0, 1)

    def forward(self, keep: bool = False) -> tuple[Tensor, list[Tensor]]:
        """Σ_j F_{k(j)} u_j v_j, (n, c), and hidden values of each tile, if they are to be kept."""
        out = self._flat.new_empty(len(self._lanes.features), self._flat.shape[1])
        kept = []
        for rows, some in self._lanes.tiles():
            hidden = self._hidden(some)
            torch.mm(hidden.T, self._flat, out=out[rows])
            if keep:
                kept.append(hidden)
        return out, kept

    def adjoint(self, residual: Tensor, kept: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(Σ_i F_{k(j)}ᵀ R v_j, (F_{k(j)} u_j)ᵀ R), (N, p) and (N, a, c)."""
        towards_left, towards_right = self._first.new_zeros(self._first.shape), self._flat.new_zeros(self._flat.shape)
        for number, (rows, some) in enumerate(self._lanes.tiles()):
            towards_right.addmm_(kept[number] if kept else self._hidden(some), residual[rows])
            back = (self._flat @ residual[rows].T).view(*self._first.shape[:2], -1)  # (K·a, w, b)
            towards_left.baddbmm_(back, some)
        by_neuron = self._lanes.gather
        return by_neuron(towards_left).sum(1), by_neuron(towards_right.view(self._second.shape))

    def hidden(self) -> Tensor:
        """F_{k(j)} u_j, (N, a, n)."""
        tiles = [self._hidden(some).view(*self._first.shape[:2], -1) for _, some in self._lanes.tiles()]
        return self._lanes.gather(torch.cat(tiles, 2))

    def _hidden(self, some: Tensor) -> Tensor:
        """(K·a·w, b)."""
        return torch.bmm(self._first, some.transpose(1, 2)).flatten(0, 1)
