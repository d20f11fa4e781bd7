"""What a sampler of gates sees of a problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_Array = NDArray[np.float64]
Slopes = Callable[[_Array, _Array, _Array], tuple[float, list[_Array]]]


class Seen(Protocol):
    """The rows Φ (N, p) that one group of neurons sees, sample by sample."""

    @property
    def p(self) -> int: ...

    def __len__(self) -> int: ...

    def some(self, index: Tensor) -> Tensor:
        """The rows with these numbers, (…, p)."""

    def patterns(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """1{Φ h ≥ 0} of vectors (m, p), (m, N) bool, and whether rounding decides somewhere in it (m,)."""


class Trainee(Protocol):
    """ReLU networks of the block with first layers (m, p) and second ones (m, q), each neuron in a group (m,), in units
    in which both layers, outputs and objective are of moderate size."""

    @property
    def samples(self) -> int: ...

    @property
    def p(self) -> int: ...

    @property
    def q(self) -> int: ...

    def work(self, neurons: int) -> float:
        """Multiply-adds of a forward pass over one sample, about."""

    def network(self, group: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """(first, second) ↦ outputs of all samples; differentiable."""

    def bias(self) -> Tensor:
        """The best constant outputs (c,), where networks have a bias that costs nothing; else (0,)."""

    def constant_loss(self, bias: Tensor) -> float:
        """The loss of such a bias alone."""

    def slopes(self, group: Tensor) -> Slopes:
        """(first, second, bias) ↦ the loss of the outputs, and its gradients in all three."""

    @property
    def beta(self) -> float: ...

    def part(self, some: Tensor) -> Trainee:
        """On the samples with these numbers alone, at their part of β: losses are sums."""

    def merged(self) -> Trainee:
        """On distinct samples, each with the weight of all that are equal to it: so that one of weight two trains a
        network as one repeated does."""

    def narrowed(self) -> tuple[Trainee, Callable[[Tensor], Tensor]]:
        """On coordinates within the span of the samples, where a table has more columns than rows, and the way back for
        first layers (m, p): weights beyond the span say nothing and are penalised, so that a network has none."""


@dataclass(frozen=True)
class Sight:
    """groups: the rows of each group of neurons.  targets (T, c): of each sample, or of each token; row r of Φ belongs
    to target r·T/N.  trainee: networks that can be trained on the data.  brief: what follows is a solve that
    takes fractions of a second where samples are few, and finding gates should take less; so it is for labels, but for
    ReLU."""

    groups: Sequence[Seen]
    targets: Tensor
    trainee: Trainee
    brief: bool = True
