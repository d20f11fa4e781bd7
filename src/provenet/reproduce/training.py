"""Networks trained as the papers train them: many at once, so that 20,000 small steps do not take a day.

All runs of a batch have the same data and size.  The step is that of torch's SGD with momentum, the rate falls on a
plateau as torch's ReduceLROnPlateau lets it, for each run by itself, and once none moves any more the epochs that are
left are not run.  Neurons behind one fixed gate are summed before they meet the samples, so that their number hardly
matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet import batches


@dataclass(frozen=True)
class Recipe:
    """``decay``: what the rate is multiplied by after ``patience`` epochs without a new best.  ``mean``: the gradient
    is of the objective divided by so much."""

    epochs: int
    rate: float
    momentum: float
    decay: float
    patience: int = 10
    mean: float = 1.0


@dataclass(frozen=True)
class Trained:
    """Weights (B, N, p) and (B, N, q), and the objectives (B, looks) on the way, the last ones at the end."""

    first: Tensor
    second: Tensor
    curve: Tensor
    epochs: Tensor


_BETTER = 1e-4  # a new best is better by this share, as in torch
_ASLEEP = 2.0**-40  # of the first rate: all epochs that are left would not change the eleventh digit
_CACHED = 2**20  # bytes of weights worked on at a time, so that a step's many small operations find them near


@torch.no_grad()
def descend(
    X: Tensor | None,
    Y: Tensor,
    opened: Tensor | None,
    first: Tensor,
    second: Tensor,
    beta: Tensor,
    recipe: Recipe,
    looks: int = 200,
) -> Trained:
    """min ½‖Σ_j D_j X u_j v_jᵀ − Y‖² + β/2 Σ_j (‖u_j‖² + ‖v_j‖²), squared loss on X (n, p), Y (n, q).

    first (B, N, p), second (B, N, q), beta (B,).  opened (B, n, P): fixed gates, with N / P neurons behind each, those
    of a gate side by side; None: ReLU.  X None: X = I, which all whitened data are in coordinates of their own, where
    descent takes the same steps.
    """
    network = _ReLU(X) if opened is None else _Gated(X, opened)
    u, v = first.clone(), second.clone()
    speed_u, speed_v = torch.zeros_like(u), torch.zeros_like(v)
    spans = batches.slices(u.shape[1], u.shape[0] * u.shape[2], _CACHED) if network.apart else [slice(None)]
    parts = [[weights[:, span] for weights in (u, v, speed_u, speed_v)] for span in spans]
    weight = beta.view(-1, 1, 1)
    rate = torch.full_like(beta, recipe.rate)
    best, waited = torch.full_like(beta, torch.inf), torch.zeros_like(beta)
    kept, at, every = [], [], max(recipe.epochs // looks, 1)
    for epoch in range(recipe.epochs + 1):
        residual, squares = -Y.expand(len(u), *Y.shape), _squares(v)
        for some_u, some_v, _, _ in parts:
            residual = residual + network.outputs(some_u, some_v)
            squares = squares + _squares(some_u)
        value = 0.5 * residual.square().sum((1, 2)) + 0.5 * beta * squares
        ends = epoch == recipe.epochs or bool((rate <= _ASLEEP * recipe.rate).all())
        if epoch % every == 0 or ends:
            kept.append(value.clone())
            at.append(epoch)
        if ends:
            break
        better = value < best * (1 - _BETTER)
        best, waited = torch.where(better, value, best), torch.where(better, 0, waited + 1)
        tired = waited > recipe.patience
        rate, waited = torch.where(tired, rate * recipe.decay, rate), torch.where(tired, 0, waited)
        step = (rate / recipe.mean).view(-1, 1, 1)
        for some_u, some_v, speed_u, speed_v in parts:
            slope_u, slope_v = network.slopes(some_u, some_v, residual)
            speed_u.mul_(recipe.momentum).add_(slope_u).addcmul_(weight, some_u)
            speed_v.mul_(recipe.momentum).add_(slope_v).addcmul_(weight, some_v)
            some_u.addcmul_(step, speed_u, value=-1)
            some_v.addcmul_(step, speed_v, value=-1)
    return Trained(u, v, torch.stack(kept, 1), torch.tensor(at))


def _squares(weights: Tensor) -> Tensor:
    """Sums of squares (B,), without a copy of what is squared."""
    return torch.linalg.vector_norm(weights, dim=(1, 2)).square()


class _ReLU:
    """Outputs (B, n, q) of neurons u (B, N, p), v (B, N, q); and of the residual (B, n, q) the loss's gradients by
    both."""

    apart = True  # neurons need not be looked at together

    def __init__(self, X: Tensor | None):
        self.X = X

    def _hidden(self, u: Tensor) -> Tensor:
        return (u if self.X is None else u @ self.X.T).clamp_min(0)  # (B, N, n)

    def outputs(self, u: Tensor, v: Tensor) -> Tensor:
        return self._hidden(u).transpose(1, 2) @ v

    def slopes(self, u: Tensor, v: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self._hidden(u)
        by_hidden = (v @ residual.transpose(1, 2)).masked_fill_(hidden == 0, 0)
        return by_hidden if self.X is None else by_hidden @ self.X, hidden @ residual


class _Gated:
    """The same with fixed gates: Σ_k D_k X Z_k with Z_k = U_kᵀV_k (p, q), of all neurons behind gate k."""

    apart = False

    def __init__(self, X: Tensor | None, opened: Tensor):
        rows = torch.eye(opened.shape[1], dtype=opened.dtype) if X is None else X
        (B, n, P), p = opened.shape, rows.shape[1]
        self.features, self.shape = (opened[..., None] * rows[:, None, :]).reshape(B, n, P * p), (B, P, -1, p)

    def _each(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return u.view(*self.shape, 1), v.view(*self.shape[:3], 1, v.shape[2])

    def outputs(self, u: Tensor, v: Tensor) -> Tensor:
        each_u, each_v = self._each(u, v)
        return self.features @ (each_u * each_v).sum(2).view(len(u), -1, v.shape[2])

    def slopes(self, u: Tensor, v: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        (B, P, _, p), (each_u, each_v) = self.shape, self._each(u, v)
        pull = (self.features.transpose(1, 2) @ residual).view(B, P, 1, p, -1)
        return (pull * each_v).sum(4).view_as(u), (pull * each_u).sum(3).view_as(v)


def kaiming(shape: tuple[int, ...], fan: int, generator: torch.Generator) -> Tensor:
    """Uniform within ±1/√fan, as torch's Linear begins."""
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / fan**0.5
