"""What every operator can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from provenet.variable import Factors, Stack


class GatedRows(NamedTuple):
    """A(Z) = Σ_k D_k X Z_k: rows X (n, p), pattern D (n, P) of zeros and ones."""

    X: Tensor
    pattern: Tensor


class Operator(ABC):
    """``A(Z) = Σ_k A_k(Z_k)``, a linear map from stacks (P, p, q) to predictions (n, …, c).

    Sizes: ``n_gates`` P, ``p``, ``q``, ``output_shape`` (n, …, c).
    """

    n_gates: int
    p: int
    q: int
    output_shape: tuple[int, ...]
    dtype: torch.dtype
    has_kernel: bool = False
    narrows: bool = False

    @abstractmethod
    def forward(self, stack: Stack) -> Tensor:
        """Ŷ = A(Z)."""

    @abstractmethod
    def adjoint(self, residual: Tensor) -> Stack:
        """G = A*(R), (P, p, q)."""

    @abstractmethod
    def forward_factors(self, factors: Factors) -> Tensor:
        """A(Σ u vᵀ) without forming Z."""

    @abstractmethod
    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        """(G_{k(j)} v_j, G_{k(j)}ᵀ u_j) with G = A*(R), without forming G: shapes (N, p), (N, q)."""

    @property
    def gated_rows(self) -> GatedRows | None:
        """The rows and gates, where A is a product with them and outputs (n, q) are all there is; interior points and
        the closed form ask for them."""
        return None

    def columns(self, left: Tensor, gate: Tensor) -> Tensor:
        """A_k(u_j e_bᵀ) for first layers u (N, p) and unit vectors e_b, (N, q, n, …, c): ∂Ŷ by every second layer."""
        columns = torch.empty(len(left), self.q, *self.output_shape, dtype=self.dtype)
        rights = torch.eye(self.q, dtype=self.dtype)
        for j in range(len(left)):
            for b in range(self.q):
                columns[j, b] = self.forward_factors(Factors(left[j : j + 1], rights[b : b + 1], gate[j : j + 1]))
        return columns

    def jacobian(self, factors: Factors) -> Tensor:
        """∂Ŷ by every weight of every neuron, (N, p + q, n, …, c): A_k(e_a v_jᵀ) and A_k(u_j e_bᵀ)."""
        by_left = torch.empty(factors.n_neurons, self.p, *self.output_shape, dtype=self.dtype)
        lefts = torch.eye(self.p, dtype=self.dtype)
        for j in range(factors.n_neurons):
            v, gate = factors.right[j : j + 1], factors.gate[j : j + 1]
            for a in range(self.p):
                by_left[j, a] = self.forward_factors(Factors(lefts[a : a + 1], v, gate))
        return torch.cat([by_left, self.columns(factors.left, factors.gate)], dim=1)

    @abstractmethod
    def norm_upper(self) -> float:
        """An upper bound of ‖A‖ (Frobenius to Frobenius)."""

    @abstractmethod
    def rounding(self, residual: Tensor) -> float:
        """A bound of ‖fl(A_k*R) − A_k*R‖₂ over all k: what rounding can hide from the polar."""

    @abstractmethod
    def restrict(self, gates: Tensor) -> Operator:
        """The same operator with these gates only."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> Operator:
        """The same operator in another precision."""

    def kernel(self) -> Tensor:
        """AA* (rows, rows), shared by all output columns, where one exists (``has_kernel``); freshly allocated."""
        raise ValueError(f"{type(self).__name__} has no kernel.")

    @property
    def held_bytes(self) -> int:
        """What the operator holds for every gate, and `restrict` copies."""
        return 0

    @property
    def kernel_rows(self) -> int:
        """The side of the kernel: every entry of the prediction but its output columns."""
        return math.prod(self.output_shape[:-1])

    @property
    def stack_shape(self) -> tuple[int, int, int]:
        return self.n_gates, self.p, self.q

    @property
    def stack_bytes(self) -> int:
        return self.n_gates * self.p * self.q * self.dtype.itemsize

    def reduced(self) -> tuple[Operator, Tensor] | None:
        """(A', V) with A(V Z') = A'(Z'), V (p, r) orthonormal, where the data leave directions of u unused and it pays.

        The optimum is the same: directions orthogonal to V only add penalty (CP A.2).
        """
        return None

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        """A' with A'(Z') = A(Z), Z_k = basis_kᵀ Z'_k, for few directions of u behind some gates, where ``narrows``.

        gates (K,); basis (K, r, p), rows orthonormal or zero.  A' acts on stacks (K, r, q), at the cost of its size.
        """
        raise ValueError(f"{type(self).__name__} cannot be narrowed to some directions.")

    def new_stack(self) -> Stack:
        return torch.zeros(self.stack_shape, dtype=self.dtype)
