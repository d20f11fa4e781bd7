"""What every operator can do."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.axes import Axes
from provenet.operators.bases.rank import axes_of
from provenet.ranks import Whole
from provenet.space import Placed, Space
from provenet.variable import Factors, Stack

Backward = Callable[[Tensor], tuple[Tensor, Tensor]]


class GatedRows(NamedTuple):
    """A(Z) = Σ_k D_k X Z_k: rows X (n, p), pattern D (n, P) of zeros and ones."""

    X: Tensor
    pattern: Tensor


class Operator(Placed, ABC):
    """``A(Z) = Σ_k A_k(Z_k)``, a linear map from stacks (P, p, q) to predictions (n, …, c).

    Sizes: ``n_gates`` P, ``p``, ``q``, ``output_shape`` (n, …, c).
    """

    n_gates: int
    p: int
    q: int
    output_shape: tuple[int, ...]
    space: Space
    has_kernel: bool = False
    narrows: bool = False
    keeps_hidden: bool = True  # whether `both_ways` may keep the hidden values of all samples
    in_shards: bool = False  # True: its data are gone over in shards, and a pass may read them from disk

    @property
    def dtype(self) -> torch.dtype:
        return self.space.dtype

    @property
    def shards(self) -> Whole:
        """How samples are cut, and sums over them taken."""
        return Whole(self.output_shape[0])

    def once(self) -> Self:
        """The same for a single product: nothing is prepared that would pay only later."""
        return self

    def often(self) -> Self:
        """The same for many products: what pays is kept, as far as there is room."""
        return self

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

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        """`forward_factors`, and `adjoint_factors` at these neurons as a function of the residual: what both need is
        made once, where it can be kept."""
        return self.forward_factors(factors), lambda residual: self.adjoint_factors(residual, factors)

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        """A(u_j v_jᵀ) of each neuron on some samples in a row, (N, b, …, c)."""
        single = [factors.select(slice(j, j + 1)) for j in range(factors.n_neurons)]
        return torch.stack([self.forward_factors(neuron)[rows] for neuron in single])

    def principal_axes(self) -> Axes | None:
        """The data's, where they have such, and finding them pays; then there is `turned`."""
        rows = self.axis_rows
        return None if rows is None else axes_of(rows)

    @property
    def axis_rows(self) -> Tensor | None:
        """Rows (…, p) whose second moments are the data's, where they are there."""
        return None

    def turned(self, basis: Tensor) -> Operator:
        """A' with A'(Z') = A(VZ'), for an orthonormal V (p, p)."""
        raise ValueError(f"{type(self).__name__} cannot be turned.")

    @property
    def gated_rows(self) -> GatedRows | None:
        """The rows and gates, where A is a product with them and outputs (n, q) are all there is; interior points and
        the closed form ask for them."""
        return None

    def jacobian(self, factors: Factors) -> Tensor:
        """∂Ŷ by every weight of every neuron, (N, p + q, n, …, c): A_k(e_a v_jᵀ) and A_k(u_j e_bᵀ)."""
        columns = self.space.zeros(factors.n_neurons, self.p + self.q, *self.output_shape)
        self._fill_first(factors.right, factors.gate, columns[:, : self.p])
        self._fill_second(factors.left, factors.gate, columns[:, self.p :])
        return columns

    def second_layer_columns(self, left: Tensor, gate: Tensor) -> Tensor:
        """∂Ŷ by every weight of the second layers, A_k(u_j e_bᵀ), (N, q, n, …, c), for first layers (N, p)."""
        columns = self.space.zeros(len(left), self.q, *self.output_shape)
        self._fill_second(left, gate, columns)
        return columns

    def _fill_first(self, right: Tensor, gate: Tensor, columns: Tensor) -> None:
        """A_k(e_a v_jᵀ) into zeros (N, p, n, …, c)."""
        units = self.space.eye(self.p)
        for j, column in enumerate(columns):
            for a in range(self.p):
                column[a] = self.forward_factors(Factors(units[a : a + 1], right[j : j + 1], gate[j : j + 1]))

    def _fill_second(self, left: Tensor, gate: Tensor, columns: Tensor) -> None:
        """A_k(u_j e_bᵀ) into zeros (N, q, n, …, c)."""
        units = self.space.eye(self.q)
        for j, column in enumerate(columns):
            for b in range(self.q):
                column[b] = self.forward_factors(Factors(left[j : j + 1], units[b : b + 1], gate[j : j + 1]))

    @abstractmethod
    def norm_upper(self) -> float:
        """An upper bound of ‖A‖ (Frobenius to Frobenius)."""

    def pull_upper(self, residual: Tensor) -> float:
        """An upper bound of ‖A_k*R‖₂ for every gate, of no more work than one of them; infinite where none is known."""
        return math.inf

    @abstractmethod
    def rounding(self, residual: Tensor) -> float:
        """A bound of ‖fl(A_k*R) − A_k*R‖_F over all k: what rounding can hide from the polar; eps‖A_k*R‖_F at least."""

    @abstractmethod
    def restrict(self, gates: Tensor) -> Operator:
        """The same operator with these gates only, one of them at least."""

    def part(self, samples: Tensor) -> Operator | None:
        """The same operator on the samples with these numbers alone; None where samples are not at hand one by one."""
        return None

    def kernel(self) -> Tensor:
        """AA* (rows, rows), shared by all output columns, where one exists (``has_kernel``); freshly allocated."""
        raise ValueError(f"{type(self).__name__} has no kernel.")

    @property
    def held_bytes(self) -> int:
        """What the operator holds for every gate, and `restrict` copies."""
        return 0

    @property
    def read_bytes(self) -> int:
        """What a product with a stack reads of it."""
        return self.held_bytes

    @property
    def kernel_rows(self) -> int:
        """The side of the kernel: every entry of the prediction but its output columns."""
        return math.prod(self.output_shape[:-1])

    @property
    def neuron_work(self) -> float:
        """Multiply-adds of A on one neuron, about."""
        return self._work_on_features

    @property
    def _work_on_features(self) -> float:
        """The same, where features are there: one product with them."""
        return float(self.kernel_rows) * self.p * max(self.q // self.output_shape[-1], 1)

    @property
    def product_terms(self) -> int:
        """How many terms a product G v or Gᵀu sums up beside those of A*, at most: each rounds."""
        return self.p + self.q

    @property
    def product_size(self) -> float:
        """Multiply-adds of A(Z)."""
        return float(self.kernel_rows) * self.output_shape[-1] * self.n_gates * self.p

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
        return self.space.zeros(*self.stack_shape)
