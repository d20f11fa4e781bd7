"""Networks trained as the papers train them: many at once, so that 20,000 small steps do not take a day.

All runs of a batch have the same data and size.  The step is that of torch's SGD with momentum, the rate falls on a
plateau as torch's ReduceLROnPlateau lets it, for each run by itself, and once none moves any more the epochs that are
left are not run.  Neurons behind one fixed gate are summed before they meet the samples, so that their number hardly
matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


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
Slopes = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Of the residual (B, n, q): the loss's gradients by first and second layers."""


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
    outputs = _relu(X) if opened is None else _gated(X, opened)
    u, v = first.clone(), second.clone()
    speed_u, speed_v = torch.zeros_like(u), torch.zeros_like(v)
    weight = beta.view(-1, 1, 1)
    rate = torch.full_like(beta, recipe.rate)
    best, waited = torch.full_like(beta, torch.inf), torch.zeros_like(beta)
    kept, at, every = [], [], max(recipe.epochs // looks, 1)
    for epoch in range(recipe.epochs + 1):
        said, slopes = outputs(u, v)
        residual = said - Y
        squares = _squares(u) + _squares(v)
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
        slope_u, slope_v = slopes(residual)
        step = (rate / recipe.mean).view(-1, 1, 1)
        speed_u.mul_(recipe.momentum).add_(slope_u).addcmul_(weight, u)
        speed_v.mul_(recipe.momentum).add_(slope_v).addcmul_(weight, v)
        u.addcmul_(step, speed_u, value=-1)
        v.addcmul_(step, speed_v, value=-1)
    return Trained(u, v, torch.stack(kept, 1), torch.tensor(at))


def _squares(weights: Tensor) -> Tensor:
    """Sums of squares (B,), without a copy of what is squared."""
    return torch.linalg.vector_norm(weights, dim=(1, 2)).square()


def _relu(X: Tensor | None) -> Callable[[Tensor, Tensor], tuple[Tensor, Slopes]]:
    """Outputs (B, n, q) of ReLU networks, and the way back."""

    def outputs(u: Tensor, v: Tensor) -> tuple[Tensor, Slopes]:
        hidden = (u if X is None else u @ X.T).clamp_min(0)  # (B, N, n)

        def slopes(residual: Tensor) -> tuple[Tensor, Tensor]:
            by_hidden = (v @ residual.transpose(1, 2)).masked_fill_(hidden == 0, 0)
            return by_hidden if X is None else by_hidden @ X, hidden @ residual

        return hidden.transpose(1, 2) @ v, slopes

    return outputs


def _gated(X: Tensor | None, opened: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Slopes]]:
    """The same with fixed gates: Σ_k D_k X Z_k with Z_k = U_kᵀV_k (p, q), of all neurons behind gate k."""
    rows = torch.eye(opened.shape[1], dtype=opened.dtype) if X is None else X
    (B, n, P), p = opened.shape, rows.shape[1]
    features = (opened[..., None] * rows[:, None, :]).reshape(B, n, P * p)

    def outputs(u: Tensor, v: Tensor) -> tuple[Tensor, Slopes]:
        each_u, each_v = u.view(B, P, -1, p, 1), v.view(B, P, -1, 1, v.shape[2])

        def slopes(residual: Tensor) -> tuple[Tensor, Tensor]:
            pull = (features.transpose(1, 2) @ residual).view(B, P, 1, p, -1)
            return (pull * each_v).sum(4).view_as(u), (pull * each_u).sum(3).view_as(v)

        return features @ (each_u * each_v).sum(2).view(B, P * p, -1), slopes

    return outputs


def kaiming(shape: tuple[int, ...], fan: int, generator: torch.Generator) -> Tensor:
    """Uniform within ±1/√fan, as torch's Linear begins."""
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / fan**0.5
