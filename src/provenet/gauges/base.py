"""What gauges can do, batched over the blocks of a stack: all certify; some have a prox, some a region of cones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Generic, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self, TypeVar

from provenet import deadline
from provenet.cones import Region
from provenet.gauges.spectral import spectral_norms
from provenet.space import Placed
from provenet.variable import Factors, Stack
from provenet.word import Word

_SEARCH_SHARE = 0.3  # of the time left, for neurons to add

R_co = TypeVar("R_co", bound=Region, covariant=True, default=Region)


class BoundKind(Word):
    """How a polar was bounded, from the best kind on: exact up to rounding, for certain, or almost surely."""

    EXACT = "exact"
    DETERMINISTIC = "deterministic"
    PROBABILISTIC = "probabilistic"


class Asked(NamedTuple):
    """How well the largest of some polars has to be known.

    against: what it will be compared with.  Where it is beyond, a tenth of the excess is accuracy enough.  enough: an
    upper bound no larger than this need not be tightened.  lost: nor need any, once the largest is beyond this, but
    ``peaks`` that are nearly as far beyond are of use.  near: how close to each other, relatively, bounds need be where
    every digit takes more passes over the data.  least: what the largest is, about, at least.
    """

    against: float = inf
    enough: float = 0.0
    lost: float = inf
    near: float = 0.0
    least: float = 0.0


NOTHING = Asked()


@dataclass(frozen=True)
class Bounds:
    """lower ≤ γ°(G_k) ≤ upper, each (P,).  Only ``upper`` may enter a certificate.  stack: G, where it was formed.
    peaks (P, p): unit vectors u_k of cones with ‖G_kᵀu_k‖ as large as was found on the way, where they were kept."""

    lower: Tensor
    upper: Tensor
    kind: BoundKind = BoundKind.EXACT
    stack: Stack | None = None
    peaks: Tensor | None = None


class Gauge(Placed, ABC):
    """What a certificate needs."""

    rotates: bool = False  # whether neurons of a gate may be mixed, U → UQ and V → VQ, at no cost (BM Thm 3.3)
    spectral: bool = False  # whether γ is the nuclear norm: the polar is then the spectral norm
    exact_polar: bool = True  # whether bounds of every block's polar are one number, but for rounding

    @property
    def tightens(self) -> bool:
        """Whether bounds of polars are the tighter the more time there is."""
        return not self.exact_polar

    def restrict(self, gates: Tensor) -> Gauge:
        """The gauge of these gates' blocks."""
        return self

    def remembering(self) -> Self:
        """The same for a run: its bounds of polars may use what the ones before them have met."""
        return self

    def within(self, basis: Tensor) -> Gauge | None:
        """The gauge of blocks Z' where Z = basis·Z', for an orthonormal basis (p, r) that spans the data; None where
        it would be another in these coordinates."""
        return self

    def relaxed(self, outputs: int) -> Gauge:
        """A gauge no larger, so that its polar is no smaller, which costs little to bound and is the same on every
        machine: what β_max is told by."""
        return self

    def inside(self, factors: Factors) -> Factors:
        """The neurons moved to where the program has them in any order of summation; where they are so, as they are."""
        return factors

    def penalty(self, factors: Factors) -> Tensor:
        """What β multiplies in a network's objective: the neurons' weight decay, at least the gauge of their stack."""
        return factors.penalty()

    def rounding(self, p: int, q: int) -> float:
        """The largest polar of a block (p, q) of spectral norm one: what an error of that size can hide."""
        return 1.0

    @abstractmethod
    def polar(self, stack: Stack) -> Bounds:
        """γ°(G_k) = max{⟨G_k, Z⟩ : γ(Z) ≤ 1}, bounded from both sides."""

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        """The polar where only its largest value is wanted: others' bounds may be rough, if they are no larger."""
        return self.polar(stack)


class ProxGauge(Gauge):
    """A gauge with a prox: methods on stacks take it."""

    def restrict(self, gates: Tensor) -> ProxGauge:
        return self

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
    def factorise(self, stack: Stack) -> Factors:
        """Neurons of the stack whose penalty is the gauge's value."""

    def value(self, stack: Stack) -> Tensor:
        return self.values(stack).sum()


@dataclass(frozen=True)
class RegionGauge(Gauge, Generic[R_co]):
    """A gauge of neurons that stay in a region of cones."""

    region: R_co

    exact_polar = False

    @property
    def tightens(self) -> bool:
        """Without tables of rows the spectral norm is all that is known."""
        return len(self.region.tables) > 0

    def restrict(self, gates: Tensor) -> Self:
        region: Any = self.region.restrict(gates)
        return replace(self, region=region)

    def remembering(self) -> Self:
        region: Any = self.region.remembering()
        return replace(self, region=region)

    def within(self, basis: Tensor) -> Self:
        region: Any = self.region.within(basis)
        return replace(self, region=region)

    def inside(self, factors: Factors) -> Factors:
        return replace(factors, left=self.region.pulled_inside(factors.left, factors.gate))

    def rounding(self, p: int, q: int) -> float:
        return 1.0 + self.region.doubt


class ConeGauge(RegionGauge[R_co]):
    """Weight decay on neurons in cones: methods on cones take it."""

    spike_free: bool = False  # whether rows are orthogonal, and one gate is all there are (CP §3.3)

    @abstractmethod
    def polar(self, stack: Stack, enough: float = 0.0) -> Bounds:
        """enough: upper bounds no larger than this are not tightened."""

    @abstractmethod
    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        """Unit (u_k, v_k), shapes (P, p), (P, q), u_k in its cone, with u_kᵀ G_k v_k as large as can be found."""

    def violated(self, stack: Stack, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
        """(gates, u, v): where some unit u of the cone has ‖G_kᵀu‖ > threshold, the best u found, and v = G_kᵀu/‖·‖.

        The most violated come first.
        """
        rough = spectral_norms(stack)
        candidates = torch.argsort(rough, descending=True)[: int((rough > threshold).sum())]
        with deadline.within(_SEARCH_SHARE * deadline.left()):  # what is found must still be put to use
            u, v = self.restrict(candidates).atom(stack[candidates])
        value = torch.einsum("kp,kpq,kq->k", u, stack[candidates], v)
        order = torch.argsort(value, descending=True)
        order = order[value[order] > threshold]
        return candidates[order], u[order], v[order]
