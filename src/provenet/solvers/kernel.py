"""Solves with κW⁻¹ + K, K = AA* the kernel of an operator, in the memory of one n × n matrix."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import get_lapack_funcs
from torch import Tensor

from provenet.operators import Operator


class KernelSolve:
    """(κW⁻¹ + K)⁻¹ for one κ at a time.

    K lives in one triangle of an n × n array, the Cholesky factor of the current κW⁻¹ + K in the other, so that
    changing κ needs no second kernel.
    """

    def __init__(self, operator: Operator, sample_weight: Tensor):
        kernel = operator.kernel()
        if kernel is None:
            raise ValueError("this operator has no kernel.")
        # Fortran order, as LAPACK wants it: a symmetric matrix does not mind
        self._array = kernel.numpy().T
        self._diagonal = self._array.diagonal().copy()
        self._inverse_weight = 1 / sample_weight.numpy()
        self._potrf, self._potrs = get_lapack_funcs(("potrf", "potrs"), (self._array,))
        self.kappa = 0.0
        self.scale = float(np.mean(self._diagonal * sample_weight.numpy())) or 1.0

    def factor(self, kappa: float) -> None:
        """Factor κW⁻¹ + K, from the kept triangle."""
        array, n = self._array, self._array.shape[0]
        for start in range(0, n, 512):  # lower ← upperᵀ, in strips
            stop = min(start + 512, n)
            array[start:, start:stop] = np.tril(array[start:stop, start:].T) + np.triu(array[start:, start:stop], 1)
        np.fill_diagonal(array, self._diagonal + kappa * self._inverse_weight)
        _, info = self._potrf(array, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise ValueError(f"the kernel plus {kappa:g} is not positive definite (LAPACK info {info}).")
        self.kappa = kappa

    def __call__(self, right: Tensor) -> Tensor:
        """(κW⁻¹ + K)⁻¹ right, for right (n, …)."""
        flat = right.reshape(right.shape[0], -1).numpy()
        solution, _ = self._potrs(self._array, flat, lower=1)
        return torch.from_numpy(np.ascontiguousarray(solution)).view(right.shape)

    def ridge(self, s: Tensor) -> Tensor:
        """κW⁻¹ s."""
        weight = torch.from_numpy(self._inverse_weight).view(-1, *([1] * (s.ndim - 1)))
        return s * (self.kappa * weight)
