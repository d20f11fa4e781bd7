"""The group norm ‖Z_k‖_F: equal to the nuclear norm where p or q is one, a different penalty elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.gauges.base import Bounds, Gauge
from provenet.gauges.prox.nuclear import spectral_norms
from provenet.variable import Factors, Stack, factorise


class GroupNorm(Gauge):
    def values(self, stack: Stack) -> Tensor:
        return spectral_norms(stack.reshape(stack.shape[0], -1, 1))  # of vectors: safe from overflow and underflow

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        norm = self.values(stack)
        shrunk = (norm - step).clamp_min(0)
        return stack * (shrunk / norm.clamp_min(torch.finfo(stack.dtype).tiny))[:, None, None], shrunk

    def polar(self, stack: Stack) -> Bounds:
        norm = self.values(stack)
        slack = 2 * stack.shape[1] * stack.shape[2] * torch.finfo(stack.dtype).eps
        return Bounds(norm * (1 - slack), norm * (1 + slack))

    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        """For p or q of one; a Frobenius atom of a matrix is no single neuron."""
        if min(stack.shape[1:]) > 1:
            raise ValueError("GroupNorm.atom: an atom of the group norm is a neuron only where p or q is one.")
        norm = self.values(stack)[:, None].clamp_min(torch.finfo(stack.dtype).tiny)
        one = torch.ones_like(norm)
        flat = stack.reshape(stack.shape[0], -1) / norm
        return (flat, one) if stack.shape[2] == 1 else (one, flat)

    def factorise(self, stack: Stack) -> Factors:
        """An SVD: neurons of least penalty; equal to the gauge only where p or q is one."""
        return factorise(stack)
