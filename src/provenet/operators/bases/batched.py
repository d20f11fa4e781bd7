"""Operators that say what the outputs of a batch are, and no more: the adjoint comes by autograd.

A block is bilinear in its neurons' two layers and linear in the stack.  So A* is the transpose of the map from stacks
to outputs, and G v, Gᵀu are the derivatives of the outputs by u and v.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from provenet import deadline
from provenet.operators.bases.samples import SampledOperator
from provenet.variable import Factors, Stack

_EACH = 16  # multiply-adds for an activation, about, and what goes with making them batch by batch


class NeuronsByBatch(SampledOperator):
    """An operator whose neurons go through their hidden layer, batch by batch."""

    keeps_hidden = False

    @abstractmethod
    def factor_outputs(self, rows: slice, factors: Factors) -> Tensor:
        """A(Σ u vᵀ) on some samples, differentiable in both layers."""

    @abstractmethod
    def neuron_numbers(self) -> int:
        """Activations a sample and neuron of `factor_outputs`."""

    def forward_factors(self, factors: Factors) -> Tensor:
        if factors.n_neurons == 0:
            return self.space.zeros(*self.output_shape)
        with torch.no_grad():
            return self._gathered(self.numbers(factors), lambda rows: self.factor_outputs(rows, factors))

    @torch.enable_grad()
    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = factors.left.detach().clone().requires_grad_(), factors.right.detach().clone().requires_grad_()
        leaves = Factors(left, right, factors.gate)
        if factors.n_neurons:
            for rows in self.batches(self.numbers(factors)):
                self.factor_outputs(rows, leaves).backward(residual[rows])
        zero = torch.zeros_like
        return zero(left) if left.grad is None else left.grad, zero(right) if right.grad is None else right.grad

    @torch.no_grad()
    def alone(self, factors: Factors, rows: slice) -> Tensor:
        """Of these samples and no others, one neuron at a time."""
        single = [factors.select(slice(j, j + 1)) for j in range(factors.n_neurons)]
        return torch.stack([self.factor_outputs(rows, neuron) for neuron in single])

    @property
    def neuron_work(self) -> float:
        return max(super().neuron_work, float(self.n) * self.neuron_numbers() * _EACH)

    def numbers(self, factors: Factors) -> int:
        """Activations a sample of all these neurons."""
        return max(factors.n_neurons, 1) * self.neuron_numbers()


class BatchedOperator(NeuronsByBatch):
    """The stack likewise."""

    @abstractmethod
    def stack_outputs(self, rows: slice, stack: Stack) -> Tensor:
        """A(Z) on some samples, differentiable in the stack."""

    @abstractmethod
    def stack_numbers(self) -> int:
        """Activations a sample of `stack_outputs`."""

    def forward(self, stack: Stack) -> Tensor:
        with torch.no_grad():
            return self._gathered(self.stack_numbers(), lambda rows: self.stack_outputs(rows, stack))

    @torch.enable_grad()
    def adjoint(self, residual: Tensor) -> Stack:
        stack = self.new_stack().requires_grad_()
        for rows in deadline.paced(self.batches(self.stack_numbers())):
            self.stack_outputs(rows, stack).backward(residual[rows])  # adds to stack.grad
        return self.new_stack() if stack.grad is None else stack.grad
