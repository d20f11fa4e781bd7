"""A(SᵀW) or A(WS), S a table of sign vectors: blocks written as sums of rank-one terms with signs on one side."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.operators.bases.base import Operator
from provenet.operators.wrappers.base import Wrapper
from provenet.variable import Factors, Stack


class Lifted(Wrapper):
    """inner: the operator on Z_k.  corners (M, size): all vectors of signs, of u and −u one, so that SᵀS = M·I.

    by_rows: Z = SᵀW with W (M, q), signs for first layers; else Z = WS with W (p, M), signs for second layers.
    """

    def __init__(self, inner: Operator, corners: Tensor, by_rows: bool):
        super().__init__(inner)
        self.corners, self.by_rows = corners, by_rows
        self.p, self.q = (len(corners), inner.q) if by_rows else (inner.p, len(corners))

    def lowered(self, factors: Factors) -> Factors:
        """The neurons of W as neurons of Z."""
        if self.by_rows:
            return replace(factors, left=factors.left @ self.corners)
        return replace(factors, right=factors.right @ self.corners)

    def raised(self, factors: Factors) -> Factors:
        """Neurons of a W whose Z is that of these neurons; not the cheapest ones."""
        corners = self.corners.T / len(self.corners)
        if self.by_rows:
            return replace(factors, left=factors.left @ corners)
        return replace(factors, right=factors.right @ corners)

    def _lowered_stack(self, stack: Stack) -> Stack:
        return self.corners.T @ stack if self.by_rows else stack @ self.corners

    def _raised_stack(self, slope: Stack) -> Stack:
        return self.corners @ slope if self.by_rows else slope @ self.corners.T

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return (left @ self.corners.T, right) if self.by_rows else (left, right @ self.corners.T)

    def kernel(self) -> Tensor:
        return self.inner.kernel().mul_(len(self.corners))

    def norm_upper(self) -> float:
        return self.inner.norm_upper() * len(self.corners) ** 0.5 * (1 + 4 * torch.finfo(self.dtype).eps)

    def rounding(self, residual: Tensor) -> float:
        """‖S‖₂ = √M times the inner rounding, and that of the sums ±G, of ``size`` terms each."""
        size = self.corners.shape[1]
        try:
            largest = float(torch.linalg.matrix_norm(self.inner.adjoint(residual)).max())
        except deadline.TooLong:
            largest = self.inner.norm_upper() * float(torch.linalg.vector_norm(residual))
        sums = 2 * size**1.5 * torch.finfo(self.dtype).eps * largest
        return len(self.corners) ** 0.5 * (self.inner.rounding(residual) + sums)
