"""Operators whose first layer only counts by a sum over its copies."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.operators.wrappers.base import Wrapper
from provenet.variable import Factors, Stack


class RepeatedOperator(Wrapper):
    """A(Z) = A'(Σ_t Z[t]/√copies) for Z (P, copies·p', q): only the sum of the copies of u is seen.

    So are linear blocks with readout ``mean``: in a mixer the rows of W₁ (AT eq. 18), in an FNO the shifts (AT eq. 25).
    The spread of p' weights over their copies, V = 1/√copies ⊗ I, has orthonormal columns, so AA* = A'A'*.
    """

    def __init__(self, inner: Operator, copies: int):
        super().__init__(inner)
        self.copies, self.p = copies, copies * inner.p

    def _sum(self, weights: Tensor) -> Tensor:
        """Vᵀ, along the second axis."""
        return weights.unflatten(1, (self.copies, self.inner.p)).sum(1) * self.copies**-0.5

    def _spread(self, weights: Tensor, dim: int = 1) -> Tensor:
        """V."""
        repeats = [1] * weights.ndim
        repeats[dim] = self.copies
        return (weights * self.copies**-0.5).repeat(repeats)

    def _lowered_stack(self, stack: Stack) -> Stack:
        return self._sum(stack)

    def _raised_stack(self, slope: Stack) -> Stack:
        return self._spread(slope)

    def lowered(self, factors: Factors) -> Factors:
        return replace(factors, left=self._sum(factors.left))

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self._spread(left), right

    def rounding(self, residual: Tensor) -> float:
        # the spread keeps lengths, and rounds each entry twice
        size = self.inner.norm_upper() * float(torch.linalg.vector_norm(residual))
        return (1 + 1e-6) * self.inner.rounding(residual) + 3 * torch.finfo(self.dtype).eps * size

    @property
    def basis(self) -> Tensor:
        """V (p, p')."""
        return self._spread(self.space.eye(self.inner.p), 0)

    def reduced(self) -> tuple[Operator, Tensor] | None:
        further = self.inner.reduced()
        if further is not None:
            return further[0], self._spread(further[1], 0)
        return None if self.copies == 1 else (self.inner, self.basis)
