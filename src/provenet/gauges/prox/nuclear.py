"""The nuclear norm ‖Z‖_* of linear and gated ReLU blocks (BM eq. 2, 5); its polar is the spectral norm."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.gauges.base import NOTHING, Asked, Bounds, ProxGauge
from provenet.gauges.spectral import gram, spectral_norms, spectral_uppers
from provenet.variable import Factors, Stack, factorise

_FEW = 64  # blocks, of which every polar is found at once
_FIRST = 16  # blocks that are likely to have the largest polar


class NuclearNorm(ProxGauge):
    """Works on the smaller Gram side, min(p, q) × min(p, q), where squaring costs no accuracy that matters.

    The Gram side gives σ with absolute error about eps·σ_max²/σ: perfect for σ_max, fine for a prox whose threshold
    is not far below σ_max, useless for tiny σ.  Where it is not accurate enough an SVD takes over, block by block.
    """

    rotates = True
    spectral = True

    def values(self, stack: Stack) -> Tensor:
        if min(stack.shape[1:]) == 1:
            return spectral_norms(stack)
        return torch.linalg.svdvals(stack).sum(-1)

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        if min(stack.shape[1:]) == 1:
            norm = torch.linalg.vector_norm(stack, dim=(1, 2))
            shrunk = (norm - step).clamp_min(0)
            return stack * (shrunk / norm.clamp_min(torch.finfo(stack.dtype).tiny))[:, None, None], shrunk
        out = torch.zeros_like(stack)
        value = stack.new_zeros(stack.shape[0])
        size = torch.linalg.vector_norm(stack, dim=(1, 2))
        eps = torch.finfo(stack.dtype).eps
        # ‖Z‖_F ≤ step: nothing survives.  eps·(‖Z‖/step)² is the relative error of σ at the threshold.
        alive = torch.nonzero(size > step).flatten()
        rough = eps * (size[alive] / max(step, torch.finfo(stack.dtype).tiny)) ** 2 > eps**0.625
        for blocks, method in ((alive[~rough], _prox_by_gram), (alive[rough], _prox_by_svd)):
            if blocks.numel() == stack.shape[0]:
                return method(stack, step)
            if blocks.numel():
                out[blocks], value[blocks] = method(stack[blocks], step)
        return out, value

    def polar(self, stack: Stack) -> Bounds:
        p, q = stack.shape[1:]
        sigma = spectral_norms(stack)
        # the Gram side rounds by max(p, q)·‖Z‖_F² ≤ p·q·σ² units, its eigenvalue by a few times min(p, q)
        slack = (p * q + 8 * (p + q)) * torch.finfo(stack.dtype).eps
        return Bounds(sigma * (1 - slack), sigma * (1 + slack))

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        """Blocks that cannot have the largest polar, as a bound without eigenvalues shows, keep that bound."""
        if min(stack.shape[1:]) == 1 or stack.shape[0] < _FEW:
            return self.polar(stack)
        upper = spectral_uppers(stack)
        order = torch.argsort(upper, descending=True)
        first = self.polar(stack[order[:_FIRST]])
        rest = order[_FIRST:]
        rest = rest[upper[rest] > first.upper.max()]
        lower = upper / stack.shape[1:].numel()
        exact = torch.cat([order[:_FIRST], rest])
        others = self.polar(stack[rest])
        lower[exact], upper[exact] = torch.cat([first.lower, others.lower]), torch.cat([first.upper, others.upper])
        return Bounds(lower, upper)

    def factorise(self, stack: Stack) -> Factors:
        return factorise(stack)


def _prox_by_gram(stack: Stack, step: float) -> tuple[Stack, Tensor]:
    eigenvalue, basis = torch.linalg.eigh(gram(stack))
    sigma = eigenvalue.clamp_min(0).sqrt()
    shrunk = (sigma - step).clamp_min(0)
    ratio = shrunk / sigma.clamp_min(step if step > 0 else torch.finfo(stack.dtype).tiny)
    shrink = torch.bmm(basis * ratio[:, None, :], basis.transpose(1, 2))
    out = torch.bmm(stack, shrink) if stack.shape[2] <= stack.shape[1] else torch.bmm(shrink, stack)
    return out, shrunk.sum(-1)


def _prox_by_svd(stack: Stack, step: float) -> tuple[Stack, Tensor]:
    U, sigma, Vh = torch.linalg.svd(stack, full_matrices=False)
    shrunk = (sigma - step).clamp_min(0)
    return torch.bmm(U * shrunk[:, None, :], Vh), shrunk.sum(-1)
