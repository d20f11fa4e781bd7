"""Neurons that write to one output each: a pair of gate and output has a block of its own, a column of Z_k."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.variable import Factors, Stack


class ByOutput(Operator):
    """A(Z) = A'(Z') with Z'_k[:, j] = z_kj, for blocks z_kj (p, 1) of pairs: gate (M,) and output (M,) of the ``inner``
    operator, whose blocks are (p, c).  By default all pairs, those of one output following one another."""

    def __init__(self, inner: Operator, gate: Tensor | None = None, output: Tensor | None = None):
        P, c = inner.n_gates, inner.q
        self.inner = inner
        self.gate = torch.arange(P).repeat(c) if gate is None else gate
        self.output = torch.arange(c).repeat_interleave(P) if output is None else output
        self.n_gates, self.p, self.q = len(self.gate), inner.p, 1
        self.output_shape, self.dtype = inner.output_shape, inner.dtype

    def lowered(self, factors: Factors) -> Factors:
        """Neurons (u, w) of pairs as neurons (u, w e_j) of gates."""
        right = factors.right.new_zeros(factors.n_neurons, self.inner.q)
        right[torch.arange(factors.n_neurons), self.output[factors.gate]] = factors.right[:, 0]
        return Factors(factors.left, right, self.gate[factors.gate])

    def raised(self, factors: Factors) -> Factors:
        """Back, for all pairs: a neuron that writes to several outputs becomes one for each."""
        neuron, output = torch.nonzero(factors.right, as_tuple=True)
        pair = output * self.inner.n_gates + factors.gate[neuron]
        return Factors(factors.left[neuron], factors.right[neuron, output, None], pair)

    def forward(self, stack: Stack) -> Tensor:
        columns = stack.new_zeros(self.inner.n_gates, self.inner.q, self.p)
        columns[self.gate, self.output] = stack[:, :, 0]
        return self.inner.forward(columns.mT.contiguous())

    def adjoint(self, residual: Tensor) -> Stack:
        return self.inner.adjoint(residual).mT[self.gate, self.output].unsqueeze(2)

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.inner.forward_factors(self.lowered(factors))

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = self.inner.adjoint_factors(residual, self.lowered(factors))
        return left, right.gather(1, self.output[factors.gate, None])

    def norm_upper(self) -> float:
        return self.inner.norm_upper()

    def rounding(self, residual: Tensor) -> float:
        return self.inner.rounding(residual)

    def restrict(self, gates: Tensor) -> ByOutput:
        kept, place = torch.unique(self.gate[gates], return_inverse=True)
        return ByOutput(self.inner.restrict(kept), place, self.output[gates])

    def to(self, dtype: torch.dtype) -> ByOutput:
        return ByOutput(self.inner.to(dtype), self.gate, self.output)
