"""Solves with diag(ridge) + K, K = AA* the kernel of an operator, in the memory of one n × n matrix."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import get_lapack_funcs
from torch import Tensor

from provenet import deadline
from provenet.operators import Operator

_STRIP = 128


class KernelSolve:
    """(diag(ridge) + K)⁻¹ for one ridge (n,) at a time.

    K lives in one triangle of an n × n array, the Cholesky factor of the current diag(ridge) + K in the other, so that
    a new ridge needs no second kernel.
    """

    def __init__(self, operator: Operator):
        n = operator.kernel_rows
        deadline.need(0.5 * float(n) ** 2 * (operator.p + operator.n_gates))
        kernel = operator.kernel()
        self._array = kernel.numpy().T  # Fortran order, as LAPACK wants it: a symmetric matrix does not mind
        self._diagonal = self._array.diagonal().copy()
        self._potrf, self._potrs = get_lapack_funcs(("potrf", "potrs"), (self._array,))
        self.ridge = torch.zeros(0, dtype=kernel.dtype)

    def factor(self, ridge: Tensor) -> None:
        """Factor diag(ridge) + K, from the kept triangle; a ridge (n,) holds for all rows of its sample."""
        ridge = self._by_row(ridge)
        if torch.equal(ridge, self.ridge):
            return
        array, n = self._array, self._array.shape[0]
        deadline.need(float(n) ** 3 / 3)
        for start in range(0, n, _STRIP):  # lower ← upperᵀ, a square on the diagonal and what is below it
            stop = min(start + _STRIP, n)
            square = np.triu(array[start:stop, start:stop], 1)
            array[start:stop, start:stop] = square + square.T
            array[stop:, start:stop] = array[start:stop, stop:].T
        np.fill_diagonal(array, self._diagonal + ridge.numpy())
        _, info = self._potrf(array, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            smallest = float(ridge.min())
            raise np.linalg.LinAlgError(f"the kernel with ridge {smallest:g} is not positive definite (LAPACK {info}).")
        self.ridge = ridge

    def __call__(self, right: Tensor) -> Tensor:
        """(diag(ridge) + K)⁻¹ right, for right (…, c), as many rows as the kernel has before its columns."""
        solution, _ = self._potrs(self._array, right.reshape(self._array.shape[0], -1).numpy(), lower=1)
        return torch.from_numpy(np.ascontiguousarray(solution)).view(right.shape)

    def ridge_times(self, s: Tensor) -> Tensor:
        """diag(ridge) s."""
        return s * self.ridge.view(*s.shape[:-1], 1)

    def trace(self, weight: Tensor) -> float:
        """tr(diag(weight) K), at least the largest eigenvalue."""
        return float(np.dot(self._diagonal, self._by_row(weight).numpy()))

    def _by_row(self, by_sample: Tensor) -> Tensor:
        return by_sample.repeat_interleave(len(self._diagonal) // len(by_sample))
