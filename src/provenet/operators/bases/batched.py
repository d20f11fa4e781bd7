"""Operators of blocks on large inputs: one batch of samples at a time, the adjoint by autograd.

A block is bilinear in its neurons' two layers and linear in the stack.  So its operator only says what the outputs of
a batch are; A* is the transpose of that map, and G v, Gᵀu are its derivatives by u and v.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Operator
from provenet.variable import Factors, Stack

_TILE_BYTES = 8 * 2**20  # activations of one batch
_KEEP_BYTES = 256 * 2**20  # inputs up to this size are prepared once and kept, larger ones batch by batch


class BatchedOperator(Operator):
    """X (n, …) in any precision, divided by ``scale``; patterns (P, n, ρ) bool, or None where all is open.

    Sizes to be set by the operator: ``p``, ``q``, ``output_shape``.
    """

    def __init__(self, X: Tensor, patterns: Tensor | None, scale: float = 1.0, dtype: torch.dtype = torch.float64):
        self.n = X.shape[0]
        self.dtype = dtype
        self.patterns = patterns
        self.n_gates = 1 if patterns is None else patterns.shape[0]
        self._source, self._scale = X, scale
        self._kept: Tensor | None = None
        if X.numel() * dtype.itemsize <= _KEEP_BYTES:
            self._kept = self._prepared(X)

    def prepare(self, x: Tensor) -> Tensor:
        """What the block makes of its input before any weight: nothing, or pooling, Fourier features, …"""
        return x

    def _prepared(self, x: Tensor) -> Tensor:
        return self.prepare(x.to(self.dtype) / self._scale).contiguous()

    def batch(self, rows: slice) -> Tensor:
        """The prepared input of some samples."""
        return self._prepared(self._source[rows]) if self._kept is None else self._kept[rows]

    def batches(self, numbers: int) -> Iterator[slice]:
        """Slices of samples for activations of so many ``numbers`` a sample."""
        size = max(1, _TILE_BYTES // (max(numbers, 1) * self.dtype.itemsize))
        return (slice(i, min(i + size, self.n)) for i in range(0, self.n, size))

    @abstractmethod
    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        """A(Z) on some samples, differentiable in the stack."""

    @abstractmethod
    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        """A(Σ u vᵀ) on some samples, differentiable in both layers."""

    @abstractmethod
    def stack_numbers(self) -> int:
        """Activations a sample of `stack_outputs`."""

    @abstractmethod
    def neuron_numbers(self) -> int:
        """Activations a sample and neuron of `factor_outputs`."""

    @abstractmethod
    def sample_sizes(self) -> Tensor:
        """Upper bounds (n,) of the Frobenius norm of each sample's part of A_k, entries' absolute values, any k."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The most roundings one term of a sample's part of A_k* passes through, sums over its tokens included."""

    def forward(self, stack: Stack) -> Tensor:
        with torch.no_grad():
            return self._gathered(self.stack_numbers(), lambda rows: self.stack_outputs(rows, stack))

    @torch.enable_grad()
    def adjoint(self, residual: Tensor) -> Stack:
        stack = self.new_stack().requires_grad_()
        for rows in self.batches(self.stack_numbers()):
            self.stack_outputs(rows, stack).backward(residual[rows])  # adds to stack.grad
        return self.new_stack() if stack.grad is None else stack.grad

    def forward_factors(self, factors: Factors) -> Tensor:
        if factors.n_neurons == 0:
            return torch.zeros(self.output_shape, dtype=self.dtype)
        with torch.no_grad():
            return self._gathered(self._numbers(factors), lambda rows: self.factor_outputs(rows, factors))

    @torch.enable_grad()
    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = factors.left.detach().clone().requires_grad_(), factors.right.detach().clone().requires_grad_()
        leaves = Factors(left, right, factors.gate)
        if factors.n_neurons:
            for rows in self.batches(self._numbers(factors)):
                self.factor_outputs(rows, leaves).backward(residual[rows])
        zero = torch.zeros_like
        return zero(left) if left.grad is None else left.grad, zero(right) if right.grad is None else right.grad

    def _numbers(self, factors: Factors) -> int:
        return max(factors.n_neurons, 1) * self.neuron_numbers()

    def _gathered(self, numbers: int, outputs: Callable[[slice], Tensor]) -> Tensor:
        out = torch.empty(self.output_shape, dtype=self.dtype)
        for rows in self.batches(numbers):
            out[rows] = outputs(rows)
        return out

    def norm_upper(self) -> float:
        # ‖A‖² ≤ Σ_k Σ_i ‖A_k on sample i‖²; the sums round by at most their length times eps
        slack = 1 + (self.n + self.depth) * torch.finfo(self.dtype).eps
        return float(torch.linalg.vector_norm(self.sample_sizes())) * self.n_gates**0.5 * slack

    def rounding(self, residual: Tensor) -> float:
        eps = torch.finfo(self.dtype).eps
        sizes = torch.linalg.vector_norm(residual.reshape(self.n, -1), dim=1)
        return (self.n + self.depth) * eps * float((self.sample_sizes() * sizes).sum())

    def restrict(self, gates: Tensor) -> Self:
        other = copy.copy(self)
        if self.patterns is not None:
            other.patterns, other.n_gates = self.patterns[gates], len(gates)
        return other

    def to(self, dtype: torch.dtype) -> Self:
        if dtype == self.dtype:
            return self
        other = copy.copy(self)
        other.dtype = dtype
        if self._kept is not None:  # prepared inputs may be complex
            other._kept = self._kept.to(dtype.to_complex() if self._kept.is_complex() else dtype)
        return other

    def opened(self, rows: slice, gate: Tensor) -> Tensor | None:
        """Which positions each neuron's gate opens, (N, b, ρ) bool; None where all are open."""
        return None if self.patterns is None else self.patterns[:, rows].index_select(0, gate)
