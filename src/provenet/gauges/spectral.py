"""The spectral norms of a stack's blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.variable import Stack
from provenet.vectors import unit


def spectral_norms(stack: Stack) -> Tensor:
    """σ_max of every block (P,), by an eigenvalue of the smaller Gram side, safe from overflow and underflow."""
    size = stack.abs().amax(dim=(1, 2), keepdim=True)
    unit = stack / size.clamp_min(torch.finfo(stack.dtype).tiny)
    if min(stack.shape[1:]) == 1:
        return torch.linalg.vector_norm(unit, dim=(1, 2)) * size[:, 0, 0]
    return torch.linalg.eigvalsh(gram(unit))[:, -1].clamp_min(0).sqrt() * size[:, 0, 0]


def spectral_uppers(stack: Stack) -> Tensor:
    """Upper bounds (P,) of σ_max, by no eigenvalue: σ_max⁴ ≤ ‖G²‖_F for the smaller Gram side G.  They are above by at
    most a factor of min(p, q)^⅛, and by nothing where one singular value is all there is."""
    p, q = stack.shape[1:]
    size = stack.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(stack.dtype).tiny)
    square = gram(stack / size)
    slack = (p * q + 8 * (p + q)) * torch.finfo(stack.dtype).eps  # as in the polar of the nuclear norm
    fourth = torch.linalg.vector_norm(torch.bmm(square, square), dim=(1, 2))
    return fourth.sqrt().sqrt() * size[:, 0, 0] * (1 + slack)


def leading_pairs(stack: Stack, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Singular values (P, m), falling, left (P, m, p) and right (P, m, q) vectors, by the smaller Gram side: good for
    those that are not far below the largest."""
    wide = stack.shape[1] < stack.shape[2]
    square, basis = torch.linalg.eigh(gram(stack))
    sigma = square.flip(1)[:, :most].clamp_min(0).sqrt()
    own = basis.flip(2)[:, :, :most].mT  # (P, m, ·)
    other = unit(own @ (stack if wide else stack.mT))
    return (sigma, own, other) if wide else (sigma, other, own)


def gram(stack: Stack) -> Tensor:
    """ZᵀZ or ZZᵀ, the smaller."""
    turned = stack.transpose(1, 2)
    return torch.bmm(turned, stack) if stack.shape[2] <= stack.shape[1] else torch.bmm(stack, turned)
