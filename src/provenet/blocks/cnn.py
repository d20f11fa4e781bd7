"""The CNN block: Φ_i are the patches of image i, B_i(h, V) = V P_a h (BM eq. 6, 22, Thm 3.6, App. B.2; CP eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import unfold

from provenet import batches, memory
from provenet import nn as modules
from provenet.blocks.base import Block
from provenet.blocks.rows import Rows
from provenet.nn.cnn import Convolution, pooling_matrix
from provenet.operators.blocks.cnn import CNNOperator, Windows

_TABLE_SHARE = 0.1  # of the free memory: a table of all patches may take so much


@dataclass(frozen=True)
class CNN(Convolution, Block):
    """A convolution over sequences (n, channels, length) or images (n, channels, height, width), pooled.

    A neuron has u (channels, kernel), a bias with ``fit_intercept``, and V (c, a); average pooling averages, it does
    not sum.

    Parameters
    ----------
    kernel : int or one a dimension
        How large the kernel is.
    stride : int or one a dimension
        How far it moves.
    padding : int or one a dimension
        Zeros on both sides.
    dilation : int or one a dimension
        How far its entries are apart.
    pool : int, one a dimension, or matrix (a, K)
        A grid of cells, each the average of its positions (not the sum that BM eq. 7 and CP eq. 6 write): 1 is the
        global average, 2 means 2 × 2 cells on images, row-major.  Cells are those of torch's AdaptiveAvgPool: cell i of
        m takes the positions from ⌊iK/m⌋ up to ⌈(i+1)K/m⌉ of K, so that neighbours share one where m does not divide K.
        Or a matrix of your own, positions row-major.
    fit_intercept : bool, default False
        Every patch gets a last entry of one, so that a neuron has a bias, penalised like its other weights.
    """

    name = "cnn"
    degree = 1
    order = 1
    module = modules.CNN

    def check(self, X: Tensor, outputs: int) -> None:
        self.positions(X.shape)
        if self.matrix is not None and bool(X.any()) and not 0 < self.size(X) < float("inf"):
            raise ValueError(
                f"pool: with entries up to {float(self.matrix.abs().max()):.1g}, and X up to {super().size(X):.1g}, "
                "the pooled values leave the range of float64; rescale them."
            )

    def weights(self, X: Tensor, outputs: int) -> tuple[int, int]:
        dims = X.ndim - 2
        return self.patch(X.shape[1], dims), outputs * self.cells(dims)

    def size(self, X: Tensor) -> float:
        """A matrix of the user's scales features as X does; the ones of patches count."""
        pooled = 1.0 if self.matrix is None else float(self.matrix.abs().max())
        return max(super().size(X), float(self.fit_intercept)) * pooled

    def rows(self, X: Tensor) -> Tensor | None:
        """All patches, (n·K, p), where they fit."""
        p, _ = self.weights(X, 1)
        if not memory.fits(8 * X.shape[0] * prod(self.positions(X.shape)) * p, _TABLE_SHARE):
            return None
        return self._patches(X).flatten(0, 1)

    def some_rows(self, X: Tensor, index: Tensor) -> Tensor:
        K = prod(self.positions(X.shape))
        image, which = torch.unique(index // K, return_inverse=True)
        return self._patches(X[image])[which, index % K]

    def _patches(self, X: Tensor) -> Tensor:
        """(n, K, p)."""
        kernel, stride, padding, dilation, _ = self._windows(X)
        patches = unfold(_as_images(X), kernel, dilation, padding, stride).transpose(1, 2)
        return torch.cat([patches, torch.ones_like(patches[..., :1])], dim=2) if self.fit_intercept else patches

    def sides(self, X: Tensor, vectors: Tensor) -> Tensor:
        K = prod(self.positions(X.shape))
        out = torch.empty(X.shape[0], K, len(vectors), dtype=X.dtype)
        for some in batches.slices(X.shape[0], K * vectors.shape[1], batches.PASS):
            out[some] = self._patches(X[some]) @ vectors.T
        return out

    def operator(self, rows: Rows, opened: Tensor | None, scale: float) -> CNNOperator:
        pooling = pooling_matrix(self, self.positions(rows.X.shape))
        last = 1 / scale if self.fit_intercept else None
        return CNNOperator(_as_images(rows.X), opened, rows.outputs, self._windows(rows.X), pooling, scale, last)

    def _windows(self, X: Tensor) -> Windows:
        """A sequence is an image of one row."""
        names = ("kernel", "stride", "padding", "dilation")
        sizes = [self.per_dimension(name, X.ndim - 2) for name in names] + [self.positions(X.shape)]
        if X.ndim == 3:
            sizes = [(row, size[0]) for row, size in zip((1, 1, 0, 1, 1), sizes, strict=True)]
        return Windows(*((size[0], size[1]) for size in sizes))


def _as_images(X: Tensor) -> Tensor:
    return X.unsqueeze(2) if X.ndim == 3 else X
