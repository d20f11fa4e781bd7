"""Neurons that write to one output each: a pair of gate and output has a block of its own, a column of Z_k."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Operator
from provenet.operators.wrappers.base import Wrapper
from provenet.variable import Factors, Stack


class ByOutput(Wrapper):
    """A(Z) = A'(Z') with Z'_k[:, j] = z_kj, for blocks z_kj (p, 1) of pairs: gate (M,) and output (M,) of the ``inner``
    operator, whose blocks are (p, c).  By default all pairs, those of one output following one another."""

    has_kernel = False

    def __init__(self, inner: Operator):
        super().__init__(inner)
        P, c = inner.n_gates, inner.q
        self.gate, self.output = self.space.arange(P).repeat(c), self.space.arange(c).repeat_interleave(P)
        self.n_gates, self.q = P * c, 1

    def lowered(self, factors: Factors) -> Factors:
        """Neurons (u, w) of pairs as neurons (u, w e_j) of gates."""
        right = factors.right.new_zeros(factors.n_neurons, self.inner.q)
        right.scatter_(1, self.output[factors.gate, None], factors.right)
        return Factors(factors.left, right, self.gate[factors.gate])

    def raised(self, factors: Factors) -> Factors:
        """Back, for all pairs: a neuron that writes to several outputs becomes one for each."""
        neuron, output = torch.nonzero(factors.right, as_tuple=True)
        pair = output * self.inner.n_gates + factors.gate[neuron]
        return Factors(factors.left[neuron], factors.right[neuron, output, None], pair)

    def _lowered_stack(self, stack: Stack) -> Stack:
        columns = stack.new_zeros(self.inner.n_gates, self.inner.q, self.p)
        columns[self.gate, self.output] = stack[:, :, 0]
        return columns.mT.contiguous()

    def _raised_stack(self, slope: Stack) -> Stack:
        return slope.mT[self.gate, self.output].unsqueeze(2)

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return left, right.gather(1, self.output[factors.gate, None])

    def restrict(self, gates: Tensor) -> Self:
        kept, place = torch.unique(self.gate[gates], return_inverse=True)
        inner = self.inner.restrict(kept)
        return self._with(inner=inner, gate=place, output=self.output[gates], n_gates=len(gates))
