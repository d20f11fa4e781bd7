"""Solves with diag(ridge) + K, K = AA* the kernel of an operator, in the memory of one n × n matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from torch import Tensor

from provenet import deadline
from provenet.operators import Operator
from provenet.space import Space

_STRIP = 128
_FEW, _CACHED = 4, 2**25  # columns that are solved for one by one, if a factor has no more bytes; one, if it has
_MANY = 512  # rows: fewer are as quick in float64
_QUICKER = 2  # a factorisation in float32
_SINGLE = 1e-5  # of the kernel's trace: solves with a smaller ridge would have lost too many of float32's digits


def pays(operator: Operator) -> bool:
    """Whether float32 does."""
    return operator.kernel_rows >= _MANY


class Kernel:
    """K, and the Cholesky factor of the diag(ridge) + K that was last solved with.

    K lives in one triangle of an n × n array, the factor in the other, so that a new ridge needs no second kernel.
    Both are in float32 where rows are many, and solutions have few digits, until a ridge asks for more: then in
    float64.
    """

    def __init__(self, operator: Operator):
        self._exact = operator
        self._hold(operator.to(Space(operator.space.device, torch.float32)) if pays(operator) else operator)

    def _hold(self, operator: Operator) -> None:
        n = operator.kernel_rows
        deadline.need(0.5 * float(n) ** 2 * (operator.p + operator.n_gates))
        self.operator = operator
        self._array = operator.kernel().numpy().T  # Fortran order, as LAPACK wants it: a symmetric matrix does not mind
        self.diagonal = self._array.diagonal().astype(np.float64)
        self._potrf, self._potrs = get_lapack_funcs(("potrf", "potrs"), (self._array,))
        self._trsv = get_blas_funcs("trsv", (self._array,))
        self._ridge: Tensor | None = None  # of the factor

    @property
    def single(self) -> bool:
        """Whether it is in float32."""
        return self.operator is not self._exact

    def solve(self, ridge: Tensor, right: Tensor) -> Tensor:
        """(diag(ridge) + K)⁻¹ right, for ridge (rows,) and right (…, c), as many rows as K before its columns."""
        if self._ridge is None or not torch.equal(ridge, self._ridge):
            self._factor(ridge)
        columns = right.reshape(self._array.shape[0], -1).numpy()
        solution = self._solved(columns.astype(self._array.dtype, copy=False))
        return torch.from_numpy(np.ascontiguousarray(solution, dtype=columns.dtype)).view(right.shape)

    def _solved(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Few columns one by one, which is quicker than all at once while the factor stays in the cache."""
        factor = self._array
        if columns.shape[1] > (_FEW if factor.nbytes <= _CACHED else 1):
            return np.asarray(self._potrs(factor, columns, lower=1)[0])
        half = (self._trsv(factor, column, lower=1) for column in columns.T)
        return np.stack([self._trsv(factor, column, lower=1, trans=1) for column in half], axis=1)

    def _factor(self, ridge: Tensor) -> None:
        """From the kept triangle."""
        if self.single and not float(ridge.min()) >= _SINGLE * float(self.diagonal.sum()):
            del self._array  # room for another
            self._hold(self._exact)
        self._ridge = None
        array, n = self._array, self._array.shape[0]
        deadline.need(float(n) ** 3 / (_QUICKER * 6 if self.single else 6))
        for start in range(0, n, _STRIP):  # lower ← upperᵀ, a square on the diagonal and what is below it
            stop = min(start + _STRIP, n)
            square = np.triu(array[start:stop, start:stop], 1)
            array[start:stop, start:stop] = square + square.T
            array[stop:, start:stop] = array[start:stop, stop:].T
        np.fill_diagonal(array, self.diagonal + ridge.numpy())
        _, info = self._potrf(array, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            smallest = float(ridge.min())
            raise np.linalg.LinAlgError(f"the kernel with ridge {smallest:g} is not positive definite (LAPACK {info}).")
        self._ridge = ridge


@dataclass(frozen=True)
class KernelSolve:
    """(diag(ridge) + K)⁻¹ for one ridge (rows,).  With a ``constant`` (rows,), the rows 1 of a free intercept: the s
    with 1ᵀs = 0 for which (diag(ridge) + K)s is right but for a constant in each column.  All that share a kernel are
    right at any time; the one that was used last is quick, as the kernel has room for one factor."""

    kernel: Kernel
    ridge: Tensor
    constant: Tensor | None = None

    @staticmethod
    def of(operator: Operator, constant: Tensor | None = None) -> KernelSolve:
        return KernelSolve(Kernel(operator), operator.space.zeros(0), constant)

    def at(self, ridge: Tensor) -> KernelSolve:
        """With another ridge; one (n,) holds for all rows of its sample."""
        return KernelSolve(self.kernel, self._by_row(ridge), self.constant)

    def __call__(self, right: Tensor) -> Tensor:
        solution = self.kernel.solve(self.ridge, right)
        if self.constant is None:
            return solution
        columns = solution.view(-1, solution.shape[-1])
        return (columns - self._border[:, None] * (self.constant @ columns)).view_as(solution)

    @cached_property
    def _border(self) -> Tensor:
        """S⁻¹1/(1ᵀS⁻¹1), S the matrix that is solved with."""
        assert self.constant is not None
        column = self.kernel.solve(self.ridge, self.constant[:, None])[:, 0]
        return column / (self.constant @ column)

    @property
    def single(self) -> bool:
        """Whether solutions have float32's digits, or some fewer."""
        return self.kernel.single

    @property
    def operator(self) -> Operator:
        """In the same precision."""
        return self.kernel.operator

    def ridge_times(self, s: Tensor) -> Tensor:
        """diag(ridge) s."""
        return s * self.ridge.view(*s.shape[:-1], 1)

    def trace(self, weight: Tensor) -> float:
        """tr(diag(weight) K), at least the largest eigenvalue."""
        return float(np.dot(self.kernel.diagonal, self._by_row(weight).numpy()))

    def _by_row(self, by_sample: Tensor) -> Tensor:
        return by_sample.repeat_interleave(len(self.kernel.diagonal) // len(by_sample))
