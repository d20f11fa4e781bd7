"""Fewer tokens and fewer features: what is done to a backbone's tokens before a head reads them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d

from provenet.nn.settings import times


class Reduction(nn.Module):
    """(b, s, d) tokens → fewer of them, narrower.  Tokens that the mask leaves out stay zero.

    Parameters
    ----------
    grid : (h, w), optional
        How tokens lie; None: in a row.
    pool : (h', w'), optional
        The grid they are averaged to.
    features : int, optional
        Neighbouring features are averaged to so many.
    mean, components : Tensors (d,), (d', d), optional
        Of a PCA, x ↦ components (x − mean); not together with ``features``.
    """

    mean: Tensor | None
    components: Tensor | None

    def __init__(
        self,
        grid: tuple[int, int] | None = None,
        pool: tuple[int, int] | None = None,
        features: int | None = None,
        mean: Tensor | None = None,
        components: Tensor | None = None,
    ):
        super().__init__()
        if (mean is None) != (components is None):
            raise ValueError("mean, components: a PCA has both; give both, or neither.")
        if features is not None and components is not None:
            raise ValueError("features, components: features are averaged, or projected by a PCA; give one of them.")
        if pool is not None and grid is None:
            raise ValueError("pool: tokens in a row, such as a text's, are not averaged; have fewer by cutting texts.")
        if pool is not None and grid is not None and not all(1 <= a <= b for a, b in zip(pool, grid, strict=True)):
            raise ValueError(f"pool: a grid of {times(grid)} cannot be averaged to {times(pool)}.")
        self.grid, self.pool, self.features = grid, pool, features
        self.register_buffer("mean", None if mean is None else mean.clone())
        self.register_buffer("components", None if components is None else components.clone())

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.pool is not None and self.grid is not None:
            tokens = self._pooled(tokens)
        if self.features is not None:
            if self.features > tokens.shape[-1]:
                raise ValueError(f"features: {tokens.shape[-1]} cannot be averaged to {self.features}.")
            tokens = adaptive_avg_pool1d(tokens, self.features)
        if self.components is not None and self.mean is not None:
            tokens = (tokens - self.mean) @ self.components.T
        return tokens if mask is None else tokens.masked_fill(~mask.bool().unsqueeze(-1), 0)

    def _pooled(self, tokens: Tensor) -> Tensor:
        assert self.grid is not None
        assert self.pool is not None
        maps = tokens.transpose(1, 2).unflatten(2, self.grid)  # (b, d, h, w)
        return adaptive_avg_pool2d(maps, self.pool).flatten(2).transpose(1, 2)

    def extra_repr(self) -> str:
        said = [] if self.grid is None else [f"grid={self.grid}"]
        said += [] if self.pool is None else [f"pool={self.pool}"]
        said += [] if self.features is None else [f"features={self.features}"]
        said += [] if self.components is None else [f"pca={len(self.components)}"]
        return ", ".join(said)


def principal(total: Tensor, outer: Tensor, count: int, components: int) -> tuple[Tensor, Tensor]:
    """(mean (d,), components (k, d)) of ``count`` tokens whose sum is ``total`` (d,) and whose Σ xxᵀ is ``outer``.

    Signs are such that each component's largest entry is positive: eigenvectors have none of their own.
    """
    if not 1 <= components <= len(total):
        raise ValueError(f"pca: tokens have {len(total)} features; {components} components cannot be had.")
    mean = total / count
    spread = outer / count - torch.outer(mean, mean)
    vectors = torch.linalg.eigh(spread).eigenvectors.flip(1)[:, :components].T
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    return mean, vectors * largest.sign()
