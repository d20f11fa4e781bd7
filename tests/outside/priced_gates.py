"""A gauge of a user's: weight decay at a price a gate, γ_k(Z) = c_k ‖Z‖_*."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from provenet.gauges import Bounds, NuclearNorm, ProxGauge
from provenet.variable import Factors, factorise


@dataclass(frozen=True)
class PricedGates(ProxGauge):
    prices: Tensor  # (P,), positive

    rotates = True

    def values(self, stack: Tensor) -> Tensor:
        return self.prices * NuclearNorm().values(stack)

    def prox(self, stack: Tensor, step: float) -> tuple[Tensor, Tensor]:
        unit = self.prices[:, None, None]  # prox of c·γ at Z is c times that of γ at Z/c
        near, values = NuclearNorm().prox(stack / unit, step)
        return unit * near, self.prices**2 * values

    def polar(self, stack: Tensor) -> Bounds:
        plain = NuclearNorm().polar(stack)
        return replace(plain, lower=plain.lower / self.prices, upper=plain.upper / self.prices)

    def factorise(self, stack: Tensor) -> Factors:
        return factorise(stack)

    def penalty(self, factors: Factors) -> Tensor:
        squares = factors.left.square().sum(1) + factors.right.square().sum(1)
        return 0.5 * (self.prices[factors.gate] * squares).sum()

    def rounding(self, p: int, q: int) -> float:
        return 1 / float(self.prices.min())

    def restrict(self, gates: Tensor) -> PricedGates:
        return PricedGates(self.prices[gates])
