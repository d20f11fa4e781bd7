"""What every block can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor, nn

from provenet.operators import Operator
from provenet.variable import Factors


class Block(ABC):
    """A frozen dataclass of settings that ties an operator to a module.

    ``degree``: how often X enters: A(sX) = s^degree A(X).
    """

    name: str
    degree: int

    @abstractmethod
    def check(self, X: Tensor) -> None:
        """Raise ValueError, naming X, its shape and the shape needed, where X is no input of this block."""

    @abstractmethod
    def rows(self, X: Tensor) -> Tensor:
        """The arrangement matrix Φ (n·ρ, p): a gate h opens row r where Φ_r h ≥ 0."""

    def size(self, X: Tensor) -> float:
        """The largest entry of the block's input: what X is divided by, up to a power of four."""
        return float(X.abs().max())

    @abstractmethod
    def operator(self, X: Tensor, patterns: Tensor, outputs: int, scale: float) -> Operator:
        """The operator of X/scale with these patterns (n·ρ, P)."""

    @abstractmethod
    def network(self, factors: Factors, gate_vectors: Tensor | None, outputs: int) -> nn.Module:
        """Neurons → torch module (AT App. A)."""

    @abstractmethod
    def neurons(self, network: nn.Module) -> tuple[Tensor, Tensor, Tensor | None]:
        """Torch module → (first (N, p), second (N, q), gates (N, p) or None)."""

    def settings(self) -> Mapping[str, Any]:
        """What distinguishes this block from another of its name; JSON-ready."""
        return asdict(self)  # type: ignore[call-overload]
