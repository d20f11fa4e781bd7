"""A gate twice, once with each sign: what a neuron adds where its second layer is one number."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Operator
from provenet.operators.wrappers.base import Wrapper
from provenet.variable import Factors, Stack


class SignedOperator(Wrapper):
    """A(Z) = Σ_k s_k A_k(Z_k), signs s (P,) of ±1."""

    def __init__(self, inner: Operator, signs: Tensor):
        super().__init__(inner)
        self.signs = signs

    @staticmethod
    def both(operator: Operator) -> SignedOperator:
        """Every gate with the sign +, then every gate with −."""
        every, sign = operator.space.arange(operator.n_gates), operator.space.ones(operator.n_gates)
        return SignedOperator(operator.restrict(torch.cat([every, every])), torch.cat([sign, -sign]))

    def _lowered_stack(self, stack: Stack) -> Stack:
        return stack * self.signs[:, None, None]

    def _raised_stack(self, slope: Stack) -> Stack:
        return self._lowered_stack(slope)

    def lowered(self, factors: Factors) -> Factors:
        """The same neurons for the inner operator: the signs join the second layers."""
        return replace(factors, right=factors.right * self.signs[factors.gate, None])

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return left, right * self.signs[factors.gate, None]

    def restrict(self, gates: Tensor) -> Self:
        return super().restrict(gates)._with(signs=self.signs[gates])
