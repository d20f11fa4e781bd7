"""What every block can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from provenet import nn as modules
from provenet.blocks.on_data import OnData
from provenet.blocks.rows import Rows
from provenet.operators import Operator
from provenet.variable import Factors, Neurons

_TABLE_NUMBERS = 2**22  # of rows that are written down though the block need not


class Block(ABC):
    """A frozen dataclass of settings that ties an operator to a module.

    ``degree``: how often X enters: A(sX) = s^degree A(X).  ``tokens``: whether its outputs are tokens, to be read out.
    ``order``: how often X enters a row of Φ, where a side is a plain sum of products; 0 where it is more than that.
    ``masks``: whether the number of tokens may vary.  ``groups``: into how many groups features and outputs are split,
    each with neurons and gates of its own.  ``plain``: whether outputs are act(Φ Uᵀ) V, Φ being `rows`.
    """

    name: str
    degree: int
    module: type[modules.TwoLayer]
    tokens: bool = False
    masks: bool = False
    plain: bool = False
    order: int = 0
    groups: int = 1

    @abstractmethod
    def check(self, X: Tensor, outputs: int) -> None:
        """Raise ValueError, naming X or a setting, the shape found and the one needed, where X is no input of it."""

    @abstractmethod
    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        """(p, q): the sizes of a neuron's two layers."""

    def split(self, X: Tensor) -> Sequence[Tensor]:
        """What each group of neurons sees of X: X itself, but for blocks in groups.  All that follows is of a group."""
        return (X,)

    @abstractmethod
    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        """Φ h for every vector h, (n, ρ, m), for vectors (m, p): the arrangement matrix, applied."""

    def rows(self, X: Tensor) -> Tensor | None:
        """Φ as a table (n·ρ, p), where the block has one; None where it is too large to be written down."""
        return None

    def row_noise(self, X: Tensor) -> Tensor | None:
        """What rounding may do to `rows` times a unit vector, (n·ρ,), where rows are computed; None where they are X's
        own numbers, and only products and their sums round."""
        return None

    def some_rows(self, X: Tensor, index: Tensor) -> Tensor:
        """The rows of Φ with these numbers, (…, p) for an index (…) into the n·ρ rows."""
        table = self.rows(X)
        if table is not None:
            return table[index]
        if self.groups > 1:  # how long a row of a group is, `weights` does not say
            raise TypeError(f"block {self.name!r}: a block in groups says its rows itself; write rows or some_rows.")
        # Φ's columns are the sides of unit vectors
        unit = torch.eye(self.weights(X, 1)[0], dtype=X.dtype, device=X.device)
        count, which = self.sides(X[:1], unit).shape[1], index.flatten()
        every = self.sides(X[which // count], unit)
        return every[torch.arange(len(which), device=X.device), which % count].view(*index.shape, -1)

    def row_parts(self, X: Tensor) -> int:
        """Into how many parts the rows of a sample fall, one after the other and as long each, that have columns of Φ
        to themselves."""
        return 1

    def row_lengths(self, X: Tensor) -> Tensor | None:
        """The norms of Φ's rows, (n·ρ,), where they are known without writing rows down."""
        return None

    def noise(self, X: Tensor, vectors: Tensor) -> Tensor:
        """What rounding may do to `sides`, (n, ρ, m); exact sums of products in any order stay within it.  No less for
        a vector whose entries are all no smaller in size."""
        depth = vectors.shape[1] + 8
        return depth * torch.finfo(X.dtype).eps * self.sides(X.abs(), vectors.abs())

    @abstractmethod
    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> Operator:
        """A of ``rows.X``/scale behind gates ``opened`` (P, n, ρ) bool; None: one gate, open everywhere."""

    def on(self, X: Tensor, outputs: int, readout: str = "mean", mask: Tensor | None = None) -> OnData:
        """The block bound to its data; see `check` for what X it takes."""
        return OnData(self, X, outputs, readout, mask)

    def size(self, X: Tensor) -> float:
        """The largest entry of the block's input: what X is divided by, up to a power of four."""
        low, high = X.aminmax()
        return float(torch.maximum(-low, high))

    def network(
        self,
        factors: Factors,
        gates: Tensor | None,
        readout: str = "mean",
        group: Tensor | None = None,
        relu: bool = False,
        bias: Tensor | None = None,
    ) -> modules.TwoLayer:
        """Neurons, with the gate vector of each (N, p), and a bias (c,) of the outputs → torch module (AT App. A)."""
        settings = dict(self.settings()) | ({"readout": readout} if self.tokens else {})
        if "groups" in settings:
            settings["group"] = group
        return self.module.from_weights(factors.left, factors.right, gates, relu, bias, **settings)

    def neurons(self, network: nn.Module, readout: str = "mean") -> Neurons:
        """Torch module → its weights."""
        if not isinstance(network, self.module):
            raise ValueError(f"network: expected a provenet.nn.{self.module.__name__}, got {type(network).__name__}.")
        wanted = dict(self.settings()) | ({"readout": readout} if self.tokens else {})
        for name, value in wanted.items():
            if network.settings[name] != value:
                raise ValueError(f"network: {name} is {network.settings[name]}, but the problem's is {value}.")
        group = network.get_buffer("group") if self.groups > 1 else None
        if group is not None and not bool(((group >= 0) & (group < self.groups)).all()):
            raise ValueError(f"network: group has entries other than 0 to {self.groups - 1}.")
        return Neurons(network.first.detach(), network.second.detach(), network.gates, group, network.relu)

    def settings(self) -> Mapping[str, Any]:
        """What distinguishes this block from another of its name; JSON-ready."""
        return asdict(self)  # type: ignore[call-overload]


def written_down(block: Block, X: Tensor) -> Tensor | None:
    """Φ (n·ρ, p) of a block that picks its rows one by one, where that is little."""
    p = block.some_rows(X[:1], torch.zeros(1, dtype=torch.long)).shape[1]
    count = len(X) * block.sides(X[:1], X.new_zeros(1, p)).shape[1]
    return block.some_rows(X, torch.arange(count)) if count * p <= _TABLE_NUMBERS else None


def check_tokens(name: str, X: Tensor) -> None:
    if X.ndim != 3:
        raise ValueError(f"X: block {name!r} needs tokens of shape (n, s, d), got {tuple(X.shape)}.")
