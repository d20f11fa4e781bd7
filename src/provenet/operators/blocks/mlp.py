"""The gated two-layer MLP: A(Z) = Σ_k D_k X Z_k (BM eq. 5; linear activation: one gate of ones)."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from provenet.operators.bases.base import GatedRows, Operator
from provenet.operators.bases.pooled import FeatureOperator
from provenet.variable import Factors, Stack

_TILE_BYTES = 2 * 2**20  # intermediates are made in tiles of rows of this size


class MLPOperator(Operator):
    """X (n, d), pattern (n, P) of zeros and ones, c outputs.

    Ŷ_ic = Σ_kf D_ik X_if Z_kfc is a contraction over two indices that share the row i.  The longer of the two goes
    into a matmul, the shorter is contracted row by row, so that nothing larger than n × min(P, d) × c exists,
    and that only in row tiles.
    """

    has_kernel = True
    narrows = True

    def __init__(self, X: Tensor, pattern: Tensor, outputs: int):
        self.X = X.contiguous()
        self.pattern = pattern.to(X.dtype).contiguous()
        self.n, self.p = X.shape
        self.n_gates = pattern.shape[1]
        self.q = outputs
        self.output_shape = (self.n, outputs)
        self.dtype = X.dtype

    def _tiles(self, width: int) -> list[slice]:
        """Slices of rows for intermediates of ``width`` numbers a row."""
        rows = max(1, _TILE_BYTES // (max(width, 1) * self.X.element_size()))
        return [slice(i, min(i + rows, self.n)) for i in range(0, self.n, rows)]

    def forward(self, stack: Stack) -> Tensor:
        by_gate = self.n_gates >= self.p  # contract gates by matmul, features row by row; or the reverse
        if by_gate:
            outer, inner, flat = self.pattern, self.X, stack.reshape(self.n_gates, -1)
        else:
            outer, inner, flat = self.X, self.pattern, stack.transpose(0, 1).reshape(self.p, -1)
        out = torch.empty(self.output_shape, dtype=self.dtype)
        for rows in self._tiles(min(self.n_gates, self.p) * self.q):
            part = (outer[rows] @ flat).view(-1, inner.shape[1], self.q)
            if self.q == 1:
                out[rows, 0] = torch.linalg.vecdot(part[:, :, 0], inner[rows])
            else:
                out[rows] = torch.bmm(inner[rows].unsqueeze(1), part).squeeze(1)
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        by_gate = self.n_gates >= self.p
        outer, inner = (self.pattern, self.X) if by_gate else (self.X, self.pattern)
        flat = torch.zeros(outer.shape[1], inner.shape[1] * self.q, dtype=self.dtype)
        for rows in self._tiles(min(self.n_gates, self.p) * self.q):
            rank_one = inner[rows].unsqueeze(2) * residual[rows].unsqueeze(1)  # (rows, min(P, d), c)
            flat.addmm_(outer[rows].T, rank_one.view(-1, flat.shape[1]))
        stack = flat.view(outer.shape[1], inner.shape[1], self.q)
        return stack if by_gate else stack.transpose(0, 1).contiguous()

    def forward_factors(self, factors: Factors) -> Tensor:
        out = torch.empty(self.output_shape, dtype=self.dtype)
        for rows in self._tiles(factors.n_neurons):
            out[rows] = self._hidden(factors, rows, self._mask(factors, rows)).T @ factors.right
        return out

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        for rows in self._tiles(factors.n_neurons):
            mask = self._mask(factors, rows)
            back = factors.right @ residual[rows].T  # (N, rows)
            left.addmm_(back if mask is None else back.mul_(mask), self.X[rows])
            right.addmm_(self._hidden(factors, rows, mask), residual[rows])
        return left, right

    @property
    def gated_rows(self) -> GatedRows:
        return GatedRows(self.X, self.pattern)

    def columns(self, left: Tensor, gate: Tensor) -> Tensor:
        columns = torch.zeros(len(left), self.q, self.n, self.q, dtype=self.dtype)
        hidden = (left @ self.X.T).mul_(self.pattern.T[gate])
        columns.diagonal(dim1=1, dim2=3).copy_(hidden[:, :, None])
        return columns

    def jacobian(self, factors: Factors) -> Tensor:
        opened = self.pattern.T[factors.gate]  # (N, n)
        columns = torch.zeros(factors.n_neurons, self.p + self.q, self.n, self.q, dtype=self.dtype)
        torch.mul((opened[:, None] * self.X.T)[..., None], factors.right[:, None, None], out=columns[:, : self.p])
        hidden = (factors.left @ self.X.T).mul_(opened)
        columns[:, self.p :].diagonal(dim1=1, dim2=3).copy_(hidden[:, :, None])
        return columns

    def _hidden(self, factors: Factors, rows: slice, mask: Tensor | None) -> Tensor:
        """D_{k(j)} X u_j on some rows, (N, rows)."""
        hidden = factors.left @ self.X[rows].T
        return hidden if mask is None else hidden.mul_(mask)

    def _mask(self, factors: Factors, rows: slice) -> Tensor | None:
        """D_{k(j)} on some rows, (N, rows); None where all is open."""
        opened = self._opened
        return None if opened is None else opened[:, rows].index_select(0, factors.gate).to(self.dtype)

    @cached_property
    def _opened(self) -> Tensor | None:
        """The pattern by gate (P, n), an eighth of its size; neurons are gated row by row of it."""
        return None if bool(self.pattern.all()) else self.pattern.T.bool().contiguous()

    def kernel(self) -> Tensor:
        """The gated kernel (XXᵀ) ∘ (DDᵀ), whatever P, d and c are."""
        K = self.X @ self.X.T
        for rows in self._tiles(self.n):
            K[rows] *= self.pattern[rows] @ self.pattern.T
        return K

    def norm_upper(self) -> float:
        # ‖A‖² = ‖K‖₂ ≤ trace K, and ≤ (gates open at one sample)·‖X‖²; each sum rounds by at most its length times eps
        trace = float((self.X.square().sum(1) * self.pattern.sum(1)).sum())
        spectral = float(torch.linalg.matrix_norm(self.X, 2)) ** 2 * self._multiplicity()
        return min(trace, spectral) ** 0.5 * (1 + 4 * (self.n + self.p) * torch.finfo(self.dtype).eps)

    def _multiplicity(self) -> float:
        """Largest number of gates open at one sample: ‖Σ_k D_k X Z_k‖² ≤ max_i |{k : D_ik = 1}| · ‖X‖² ‖Z‖²."""
        return float(self.pattern.sum(1).max())

    def rounding(self, residual: Tensor) -> float:
        eps = torch.finfo(self.dtype).eps
        return (self.n + 2) * eps * float(torch.linalg.matrix_norm(self.X.abs().T @ residual.abs()))

    def reduced(self) -> tuple[MLPOperator, Tensor] | None:
        return self._reduced

    @cached_property
    def _reduced(self) -> tuple[MLPOperator, Tensor] | None:
        U, sigma, Vh = torch.linalg.svd(self.X, full_matrices=False)
        cutoff = sigma.max() * max(self.X.shape) * torch.finfo(self.dtype).eps
        rank = max(int((sigma > cutoff).sum()), 1)
        if rank > 0.9 * self.p:
            return None
        return MLPOperator(U[:, :rank] * sigma[:rank], self.pattern, self.q), Vh[:rank].T

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        hidden = (self.X @ basis.flatten(0, 1).T).view(self.n, *basis.shape[:2])
        return FeatureOperator(hidden.mul_(self.pattern[:, gates].unsqueeze(2)).unsqueeze(2), self.q)

    def restrict(self, gates: Tensor) -> MLPOperator:
        return MLPOperator(self.X, self.pattern[:, gates], self.q)

    def to(self, dtype: torch.dtype) -> MLPOperator:
        return self if dtype == self.dtype else MLPOperator(self.X.to(dtype), self.pattern.to(dtype), self.q)
