"""What every gauge can do, batched over the blocks of a stack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any

from torch import Tensor

from provenet.space import Placed
from provenet.variable import Factors, Stack
from provenet.word import Word


class BoundKind(Word):
    """How a polar was bounded, from the best kind on: exact up to rounding, for certain, or almost surely."""

    EXACT = "exact"
    DETERMINISTIC = "deterministic"
    PROBABILISTIC = "probabilistic"


@dataclass(frozen=True)
class Bounds:
    """lower ≤ γ°(G_k) ≤ upper, each (P,).  Only ``upper`` may enter a certificate."""

    lower: Tensor
    upper: Tensor
    kind: BoundKind = BoundKind.EXACT


class Gauge(Placed, ABC):
    has_prox: bool = True
    rotates: bool = True  # whether neurons of a gate may be mixed, U → UQ and V → VQ, at no cost (BM Thm 3.3)

    def restrict(self, gates: Tensor) -> Gauge:
        """The gauge of these gates' blocks."""
        return self

    def within(self, basis: Tensor) -> Gauge | None:
        """The gauge of blocks Z' where Z = basis·Z', for an orthonormal basis (p, r) that spans the data; None where
        it would be another in these coordinates."""
        return self

    def penalty(self, factors: Factors) -> Tensor:
        """What β multiplies in a network's objective: the neurons' weight decay, at least the gauge of their stack."""
        return factors.penalty()

    def rounding(self, p: int, q: int) -> float:
        """The largest polar of a block (p, q) of spectral norm one: what an error of that size can hide."""
        return 1.0

    @abstractmethod
    def values(self, stack: Stack) -> Tensor:
        """γ(Z_k), (P,)."""

    @abstractmethod
    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        """argmin_Z step·γ(Z) + ½‖Z − stack‖² for every block, and γ of the result (P,)."""

    def prox_near(self, stack: Stack, step: float, near: Any) -> tuple[Stack, Tensor, Any]:
        """The prox, γ of it, and where its search ended, for a gauge whose prox is one: ``near`` is where an earlier
        one did, None at first, and makes it quicker."""
        return *self.prox(stack, step), None

    @abstractmethod
    def polar(self, stack: Stack) -> Bounds:
        """γ°(G_k) = max{⟨G_k, Z⟩ : γ(Z) ≤ 1}, bounded from both sides."""

    def largest(self, stack: Stack, against: float = inf) -> Bounds:
        """The polar where only its largest value is wanted: others' bounds may be rough, if they are no larger.

        against: what it will be compared with.  Where it is beyond, a tenth of the excess is accuracy enough.
        """
        return self.polar(stack)

    @abstractmethod
    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        """Unit (u_k, v_k), shapes (P, p), (P, q), with u_kᵀ G_k v_k the polar's lower bound."""

    @abstractmethod
    def factorise(self, stack: Stack) -> Factors:
        """Neurons of the stack whose penalty is the gauge's value."""

    def value(self, stack: Stack) -> Tensor:
        return self.values(stack).sum()
