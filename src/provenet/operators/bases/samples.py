"""Operators of blocks on large inputs: some samples at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches
from provenet.operators.bases.base import Operator
from provenet.space import Space


class BoundedBySamples(Operator):
    """An operator whose norm and rounding are bounded by those of each sample's part."""

    n: int

    @abstractmethod
    def sample_sizes(self) -> Tensor:
        """Upper bounds (n,) of the Frobenius norm of each sample's part of A_k, entries' absolute values, any k."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The most roundings one term of a sample's part of A_k* passes through, sums over its tokens included."""

    def norm_upper(self) -> float:
        # ‖A‖² ≤ Σ_k Σ_i ‖A_k on sample i‖²; the sums round by at most their length times eps
        slack = 1 + (self.n + self.depth) * torch.finfo(self.dtype).eps
        return float(torch.linalg.vector_norm(self.sample_sizes())) * self.n_gates**0.5 * slack

    def rounding(self, residual: Tensor) -> float:
        eps = torch.finfo(self.dtype).eps
        sizes = torch.linalg.vector_norm(residual.reshape(self.n, -1), dim=1)
        return (self.n + self.depth) * eps * float((self.sample_sizes() * sizes).sum())


class SampledOperator(BoundedBySamples):
    """X (n, …) in any precision, divided by ``scale``; patterns (P, n, ρ) bool, or None where all is open.

    Sizes to be set by the operator: ``p``, ``q``, ``output_shape``.
    """

    def __init__(self, X: Tensor, patterns: Tensor | None, scale: float = 1.0):
        self.n = X.shape[0]
        self.space = Space(X.device)
        self.patterns = patterns
        self.n_gates = 1 if patterns is None else patterns.shape[0]
        self._source, self._scale = X, scale
        self._inputs: Tensor | None = None
        if X.numel() * self.dtype.itemsize <= batches.KEPT_INPUTS:
            self._inputs = self._prepared(X)

    def prepare(self, x: Tensor) -> Tensor:
        """What the block makes of its input before any weight: nothing, or pooling, Fourier features, …"""
        return x

    def _prepared(self, x: Tensor) -> Tensor:
        return self.prepare(x.to(self.dtype) / self._scale).contiguous()

    def batch(self, rows: slice) -> Tensor:
        """The prepared input of some samples."""
        return self._prepared(self._source[rows]) if self._inputs is None else self._inputs[rows]

    def batches(self, numbers: int) -> list[slice]:
        """Slices of samples for activations of so many ``numbers`` a sample."""
        return batches.slices(self.n, numbers, batches.BATCH, self.dtype.itemsize)

    def input_sizes(self) -> Tensor:
        """‖X_i‖_F of every sample's input, before `prepare`, (n,)."""
        flat = self._source.flatten(1)
        parts = (flat[rows] for rows in self.batches(flat.shape[1]))  # each is copied to float64
        sizes = torch.cat([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])
        return sizes.to(self.dtype) / self._scale

    @property
    def held_bytes(self) -> int:
        return 0 if self.patterns is None else self.patterns.nbytes

    def restrict(self, gates: Tensor) -> Self:
        return self if self.patterns is None else self._with(patterns=self.patterns[gates], n_gates=len(gates))

    def part(self, samples: Tensor) -> Self:
        patterns = None if self.patterns is None else self.patterns[:, samples]
        inputs = None if self._inputs is None else self._inputs[samples]
        return self._with(
            _source=self._source[samples],
            _inputs=inputs,
            patterns=patterns,
            n=len(samples),
            output_shape=(len(samples), *self.output_shape[1:]),
        )

    def opened(self, rows: slice, gate: Tensor) -> Tensor | None:
        """Which positions each neuron's gate opens, (N, b, ρ) bool; None where all are open."""
        return None if self.patterns is None else self.patterns[:, rows].index_select(0, gate)

    def _gathered(self, numbers: int, outputs: Callable[[slice], Tensor]) -> Tensor:
        """The outputs of all samples, from those of batches with so many ``numbers`` a sample."""
        out = self.space.empty(*self.output_shape)
        for rows in self.batches(numbers):
            out[rows] = outputs(rows)
        return out
