"""A gate twice, once with each sign: what a neuron adds where its second layer is one number."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.variable import Factors, Stack


class SignedOperator(Operator):
    """A(Z) = Σ_k s_k A_k(Z_k), signs s (P,) of ±1."""

    def __init__(self, inner: Operator, signs: Tensor):
        self.inner, self.signs = inner, signs
        self.n_gates, self.p, self.q = inner.n_gates, inner.p, inner.q
        self.output_shape, self.dtype, self.has_kernel = inner.output_shape, inner.dtype, inner.has_kernel

    @staticmethod
    def both(operator: Operator) -> SignedOperator:
        """Every gate with the sign +, then every gate with −."""
        every = torch.arange(operator.n_gates)
        sign = torch.ones(operator.n_gates, dtype=operator.dtype)
        return SignedOperator(operator.restrict(torch.cat([every, every])), torch.cat([sign, -sign]))

    def forward(self, stack: Stack) -> Tensor:
        return self.inner.forward(stack * self.signs[:, None, None])

    def adjoint(self, residual: Tensor) -> Stack:
        return self.inner.adjoint(residual) * self.signs[:, None, None]

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.inner.forward_factors(self.unsigned(factors))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = self.inner.adjoint_factors(residual, self.unsigned(factors))
        return left, right * self.signs[factors.gate, None]

    def unsigned(self, factors: Factors) -> Factors:
        """The same neurons for the inner operator: the signs join the second layers."""
        return replace(factors, right=factors.right * self.signs[factors.gate, None])

    def kernel(self) -> Tensor:
        return self.inner.kernel()

    def norm_upper(self) -> float:
        return self.inner.norm_upper()

    def rounding(self, residual: Tensor) -> float:
        return self.inner.rounding(residual)

    @property
    def held_bytes(self) -> int:
        return self.inner.held_bytes

    def restrict(self, gates: Tensor) -> SignedOperator:
        return SignedOperator(self.inner.restrict(gates), self.signs[gates])

    def to(self, dtype: torch.dtype) -> SignedOperator:
        return self if dtype == self.dtype else SignedOperator(self.inner.to(dtype), self.signs.to(dtype))
