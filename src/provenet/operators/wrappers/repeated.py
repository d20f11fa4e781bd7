"""Operators whose first layer only counts by a sum over its copies."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.variable import Factors, Stack


class RepeatedOperator(Operator):
    """A(Z) = A'(Σ_t Z[t]/√copies) for Z (P, copies·p', q): only the sum of the copies of u is seen.

    So are linear blocks with readout ``mean``: in a mixer the rows of W₁ (AT eq. 18), in an FNO the shifts (AT eq. 25).
    The spread of p' weights over their copies, V = 1/√copies ⊗ I, has orthonormal columns, so AA* = A'A'*.
    """

    def __init__(self, inner: Operator, copies: int):
        self.inner, self.copies = inner, copies
        self.n_gates, self.p, self.q = inner.n_gates, copies * inner.p, inner.q
        self.output_shape, self.dtype, self.has_kernel = inner.output_shape, inner.dtype, inner.has_kernel

    def _sum(self, weights: Tensor, dim: int) -> Tensor:
        return weights.unflatten(dim, (self.copies, self.inner.p)).sum(dim) * self.copies**-0.5

    def _spread(self, weights: Tensor, dim: int) -> Tensor:
        repeats = [1] * weights.ndim
        repeats[dim] = self.copies
        return (weights * self.copies**-0.5).repeat(repeats)

    def _inner(self, factors: Factors) -> Factors:
        return Factors(self._sum(factors.left, 1), factors.right, factors.gate)

    def forward(self, stack: Stack) -> Tensor:
        return self.inner.forward(self._sum(stack, 1))

    def adjoint(self, residual: Tensor) -> Stack:
        return self._spread(self.inner.adjoint(residual), 1)

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.inner.forward_factors(self._inner(factors))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = self.inner.adjoint_factors(residual, self._inner(factors))
        return self._spread(left, 1), right

    def kernel(self) -> Tensor:
        return self.inner.kernel()

    def norm_upper(self) -> float:
        return self.inner.norm_upper()

    def rounding(self, residual: Tensor) -> float:
        # the spread keeps lengths, and rounds each entry twice
        size = self.inner.norm_upper() * float(torch.linalg.vector_norm(residual))
        return (1 + 1e-6) * self.inner.rounding(residual) + 3 * torch.finfo(self.dtype).eps * size

    def restrict(self, gates: Tensor) -> RepeatedOperator:
        return RepeatedOperator(self.inner.restrict(gates), self.copies)

    def to(self, dtype: torch.dtype) -> RepeatedOperator:
        return self if dtype == self.dtype else RepeatedOperator(self.inner.to(dtype), self.copies)

    @property
    def basis(self) -> Tensor:
        """V (p, p')."""
        return self._spread(torch.eye(self.inner.p, dtype=self.dtype), 0)

    def reduced(self) -> tuple[Operator, Tensor] | None:
        further = self.inner.reduced()
        if further is not None:
            return further[0], self._spread(further[1], 0)
        return None if self.copies == 1 else (self.inner, self.basis)
