"""The spectral norms of a stack's blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.variable import Stack


def spectral_norms(stack: Stack) -> Tensor:
    """σ_max of every block (P,), by an eigenvalue of the smaller Gram side, safe from overflow and underflow."""
    size = stack.abs().amax(dim=(1, 2), keepdim=True)
    unit = stack / size.clamp_min(torch.finfo(stack.dtype).tiny)
    if min(stack.shape[1:]) == 1:
        return torch.linalg.vector_norm(unit, dim=(1, 2)) * size[:, 0, 0]
    return torch.linalg.eigvalsh(gram(unit))[:, -1].clamp_min(0).sqrt() * size[:, 0, 0]


def gram(stack: Stack) -> Tensor:
    """ZᵀZ or ZZᵀ, the smaller."""
    turned = stack.transpose(1, 2)
    return torch.bmm(turned, stack) if stack.shape[2] <= stack.shape[1] else torch.bmm(stack, turned)
