"""What every block can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from provenet import batches
from provenet import nn as modules
from provenet.operators import Operator
from provenet.variable import Factors, Neurons


class Block(ABC):
    """A frozen dataclass of settings that ties an operator to a module.

    ``degree``: how often X enters: A(sX) = s^degree A(X).  ``tokens``: whether its outputs are tokens, to be read out.
    ``order``: how often X enters a row of Φ, where a side is a plain sum of products; 0 where it is more than that.
    ``masks``: whether the number of tokens may vary.  ``groups``: into how many groups features and outputs are split,
    each with neurons and gates of its own.
    """

    name: str
    degree: int
    module: type[modules.TwoLayer]
    tokens: bool = False
    masks: bool = False
    order: int = 0

    @property
    def groups(self) -> int:
        return 1

    @abstractmethod
    def check(self, X: Tensor, outputs: int) -> None:
        """Raise ValueError, naming X or a setting, the shape found and the one needed, where X is no input of it."""

    @abstractmethod
    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        """(p, q): the sizes of a neuron's two layers."""

    @abstractmethod
    def sides(self, X: Tensor, vectors: Tensor, group: int = 0) -> Tensor:
        """Φ h for every vector h, (n, ρ, m), for vectors (m, p): the arrangement matrix, applied."""

    def rows(self, X: Tensor, group: int = 0) -> Tensor | None:
        """Φ as a table (n·ρ, p), where the block has one; None where it is too large to be written down."""
        return None

    def row_noise(self, X: Tensor) -> Tensor | None:
        """What rounding may do to `rows` times a unit vector, (n·ρ,), where rows are computed; None where they are X's
        own numbers, and only products and their sums round."""
        return None

    def some_rows(self, X: Tensor, index: Tensor, group: int = 0) -> Tensor:
        """The rows of Φ with these numbers, (…, p) for an index (…) into the n·ρ rows."""
        table = self.rows(X, group)
        if table is None:
            raise NotImplementedError(f"block {self.name!r} does not say what its rows are.")
        return table[index]

    def noise(self, X: Tensor, vectors: Tensor, group: int = 0) -> Tensor:
        """What rounding may do to `sides`, (n, ρ, m); exact sums of products in any order stay within it."""
        depth = vectors.shape[1] + 8
        return depth * torch.finfo(X.dtype).eps * self.sides(X.abs(), vectors.abs(), group)

    def patterns(self, X: Tensor, vectors: Tensor, group: int = 0) -> tuple[Tensor, Tensor]:
        """(1{Φ h ≥ 0} (m, n·ρ), whether rounding decides on which side of h some row lies (m,)), batch by batch.

        Where it does, one order of summation opens the gate and another may close it: the problem and the network
        would differ.  Exact ties are open.
        """
        _, rho, m = self.sides(X[:1].to(torch.float64), vectors, group).shape
        out = torch.empty(m, X.shape[0], rho, dtype=torch.bool)
        torn = torch.zeros(m, dtype=torch.bool)
        for some in batches.slices(X.shape[0], rho * m, batches.WAVE):
            x = X[some].to(torch.float64)
            side = self.sides(x, vectors, group)
            out[:, some] = (side >= 0).permute(2, 0, 1)
            torn |= self._torn(x, vectors, group, side).any(0).any(0)
        return out.flatten(1), torn

    def _torn(self, x: Tensor, vectors: Tensor, group: int, side: Tensor) -> Tensor:
        """Where the side is within rounding of zero; an exact zero is a tie, and no tear, if every sum is exact."""
        noise = self.noise(x, vectors, group)  # zero where all products are: then the side is zero in any order
        torn = (noise > 0) & (side.abs() <= noise)
        tied = torn & (side == 0)
        if self.order == 0 or not bool(tied.any()):
            return torn
        # products are multiples of one power of two, and so are all partial sums: below 2⁵² of it none rounds
        unit = _quantum(x).clamp_max(1.0) ** self.order * torch.stack([_quantum(vector) for vector in vectors])
        return torn & ~(tied & (self.sides(x.abs(), vectors.abs(), group) < 2**52 * unit))

    def size(self, X: Tensor) -> float:
        """The largest entry of the block's input: what X is divided by, up to a power of four."""
        low, high = X.aminmax()
        return float(torch.maximum(-low, high))

    @abstractmethod
    def operator(
        self, X: Tensor, patterns: Tensor | None, outputs: int, readout: str, scale: float, mask: Tensor | None
    ) -> Operator:
        """The operator of X/scale with these patterns (P, n·ρ), None where all is open.

        A block with groups also takes ``group`` (P,), that of each gate; None: as many in every group, in order.
        """

    def network(
        self,
        factors: Factors,
        gates: Tensor | None,
        readout: str = "mean",
        group: Tensor | None = None,
        relu: bool = False,
    ) -> modules.TwoLayer:
        """Neurons, with the gate vector of each (N, p), → torch module (AT App. A)."""
        settings = dict(self.settings()) | ({"readout": readout} if self.tokens else {})
        if self.groups > 1:
            settings["group"] = group
        return self.module.from_weights(factors.left, factors.right, gates, relu, **settings)

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


def _quantum(tensor: Tensor) -> Tensor:
    """The largest power of two of which all entries are multiples; 1 where all are zero."""
    mantissa, exponent = torch.frexp(tensor[tensor != 0])
    if mantissa.numel() == 0:
        return tensor.new_ones(())
    digits = (mantissa * 2**53).to(torch.int64)
    return torch.ldexp((digits & -digits).to(tensor.dtype), exponent - 53).min()


def check_tokens(name: str, X: Tensor) -> None:
    if X.ndim != 3:
        raise ValueError(f"X: block {name!r} needs tokens of shape (n, s, d), got {tuple(X.shape)}.")
