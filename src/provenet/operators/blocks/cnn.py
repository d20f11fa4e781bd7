"""The convolutional network with linear pooling (BM eq. 22, Thm 3.6, Lemma 3.7): Φ_i are the patches of image i.

A(Z)_i = Σ_k Σ_a F_k[i, a] Z_k[:, (·, a)],  F_k[i, a] = Σ_t P[a, t] D_k[i, t] Φ_i[t]
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from provenet import batches, deadline
from provenet.operators.bases.pooled import PooledOperator
from provenet.variable import Factors, Stack

_FEW = 12  # positions of a cell, up to which what a single product needs of it is not worth writing down
_NARROW = 3  # cells that pool less than this part of all positions are pooled one by one


class Windows(NamedTuple):
    """Where patches are cut from images; every entry is (vertical, horizontal).  K is the product of ``positions``."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    positions: tuple[int, int]


class CNNOperator(PooledOperator):
    """X (n, channels, height, width); pooling (a, K); last: an entry that every patch ends with, where there is one.

    Images are kept padded, channels last: so a row of a patch is one piece of memory, and patches are made faster than
    they could be read back.
    """

    cells_first = False

    def __init__(
        self,
        X: Tensor,
        patterns: Tensor | None,
        outputs: int,
        windows: Windows,
        pooling: Tensor,
        scale: float = 1.0,
        last: float | None = None,
    ):
        self.channels, self.windows, self.K = X.shape[1], windows, prod(windows.positions)
        self.last = last
        super().__init__(X, patterns, scale)
        self.pooling = self.space.move(pooling)
        used = pooling != 0
        self.counts: tuple[int, ...] = tuple(used.sum(1).tolist())
        order = torch.argsort(used.int(), dim=1, descending=True, stable=True)
        self.places = self.space.move(order[:, : max(self.counts)])
        self.p = self.channels * prod(windows.kernel) + (last is not None)
        self.cells, self.outputs = len(pooling), outputs
        self.q = outputs * self.cells
        self.output_shape = (self.n, outputs)

    def prepare(self, x: Tensor) -> Tensor:
        vertical, horizontal = self.windows.padding
        return pad(x, (horizontal, horizontal, vertical, vertical)).permute(0, 2, 3, 1)

    def patches(self, rows: slice) -> Tensor:
        """Φ of some samples, (b, K, p), each patch as (kernel, channels): channels last, then ``last``."""
        x = self.batch(rows)
        kernel, stride, _, dilation, positions = self.windows
        image, down, right, channel = x.stride()
        steps = (stride[0] * down, stride[1] * right, dilation[0] * down, dilation[1] * right)
        cut = x.as_strided((len(x), *positions, *kernel, self.channels), (image, *steps, channel), x.storage_offset())
        if self.last is None:
            return cut.reshape(len(x), self.K, self.p)
        out = x.new_full((len(x), self.K, self.p), self.last)
        out[..., :-1].unflatten(-1, (*kernel, self.channels)).copy_(cut.flatten(1, 2))
        return out

    def _channels_first(self, vectors: Tensor) -> Tensor:
        """(…, p) from the order of `patches` to that of weights: (channels, kernel)."""
        taps, last = self._parted(vectors)
        return torch.cat([taps.unflatten(-1, (-1, self.channels)).transpose(-1, -2).flatten(-2), last], dim=-1)

    def _channels_last(self, weights: Tensor) -> Tensor:
        taps, last = self._parted(weights)
        return torch.cat([taps.unflatten(-1, (self.channels, -1)).transpose(-1, -2).flatten(-2), last], dim=-1)

    def _parted(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """(…, p) as what belongs to the kernel, and what belongs to the last entry, or nothing."""
        taps = self.p - (self.last is not None)
        return vectors[..., :taps], vectors[..., taps:]

    def _patch_batches(self, rows: slice) -> list[slice]:
        return batches.slices(rows.stop, self.K * self.p, batches.CORE, start=rows.start)

    def features(self, rows: slice) -> Tensor:
        out = self.space.empty(rows.stop - rows.start, self.n_gates, self.cells, self.p)
        for some in self._patch_batches(rows):
            at = slice(some.start - rows.start, some.stop - rows.start)
            if self.narrow_cells:
                out[at] = self._features_by_cell(some)
                continue
            pooled = self._weights(some) @ self.patches(some)  # (b or 1, P·a, K) by (b, K, p)
            out[at] = self._channels_first(pooled).unflatten(1, (self.n_gates, self.cells))
        return out

    @property
    def narrow_cells(self) -> bool:
        """Whether it pays to work on cells one by one, each on the positions that it pools."""
        return _NARROW * max(self.counts) <= self.K

    def _features_by_cell(self, rows: slice) -> Tensor:
        """(b, P, a, p): each cell of the s positions that it pools; with weight zero where a cell has fewer."""
        index, weight = self.places, self.pooling.gather(1, self.places)
        patches = self._channels_first(self.patches(rows))[:, index]  # (b, a, s, p)
        if self.patterns is None:
            return (weight.unsqueeze(1) @ patches).transpose(1, 2)
        if index.shape[1] == 1:  # nothing to sum
            opened = self.patterns[:, rows][:, :, index[:, 0]].transpose(0, 1).to(self.dtype)  # (b, P, a)
            return opened.unsqueeze(3) * (weight * patches.squeeze(2)).unsqueeze(1)
        opened = self.patterns[:, rows][:, :, index].permute(1, 2, 0, 3)  # (b, a, P, s)
        return (torch.where(opened, weight.unsqueeze(1), 0) @ patches).transpose(1, 2)

    def adjoint(self, residual: Tensor) -> Stack:
        if not (self.narrow_cells and max(self.counts) <= _FEW) or self.kept is not None:
            return super().adjoint(residual)
        return self._adjoint_by_cell(residual)

    def _adjoint_by_cell(self, residual: Tensor) -> Stack:
        """Σ_i Σ_t Φ_i[t] P[a, t] D_k[i, t] R_i, cell by cell: where they pool few positions, features would be larger.
        Gates meet patches or residuals, whichever are narrower.

        Whoever adds n samples' parts, each a sum of K terms, rounds n + K times: so often do these sums, and fewer
        samples at a time round no more often.
        """
        narrow, wide = min(self.p, self.outputs), max(self.p, self.outputs)
        gated, widest = self.n_gates * narrow, max(self.counts)
        total = self.space.zeros(self.cells, wide, gated)
        size = next(b for b in range(self.n, 0, -1) if b == 1 or b * widest - (-self.n // b) <= self.n + self.K)
        opened_too = self.K * (self.p + (0 if self.patterns is None else self.n_gates))
        for numbers, budget in ((gated * widest, batches.TILE), (opened_too, batches.WAVE)):
            size = min(size, batches.count(numbers, budget, self.dtype.itemsize))
        for rows in deadline.paced([slice(i, min(i + size, self.n)) for i in range(0, self.n, size)]):
            patches, opened = self._channels_first(self.patches(rows)), None
            if self.patterns is not None:
                opened = self.patterns[:, rows].permute(2, 1, 0).to(self.dtype, memory_format=torch.contiguous_format)
            for cell, count in enumerate(self.counts):
                places = self.places[cell, :count]
                own = patches[:, places].transpose(0, 1).flatten(0, 1)  # (s·b, p)
                slope = (self.pooling[cell, places][:, None, None] * residual[rows]).flatten(0, 1)  # (s·b, c)
                some, other = (own, slope) if self.p < self.outputs else (slope, own)
                if opened is not None:  # (s·b, P)
                    some = (opened[places].flatten(0, 1).unsqueeze(2) * some.unsqueeze(1)).flatten(1)
                total[cell].addmm_(other.T, some)
        parts = total.view(self.cells, wide, self.n_gates, narrow)
        order = (2, 3, 1, 0) if self.p < self.outputs else (2, 1, 3, 0)  # to (P, p, c, a)
        return parts.permute(order).reshape(self.stack_shape)

    def _weights(self, rows: slice) -> Tensor:
        """P[a, t] D_k[i, t], (b, P·a, K); one for all samples where all is open."""
        if self.patterns is None:
            return self.pooling.unsqueeze(0)
        opened = self.patterns[:, rows].transpose(0, 1).unsqueeze(2)  # (b, P, 1, K)
        return torch.where(opened, self.pooling, 0).flatten(1, 2)

    def pooled_back(self, rows: slice, factors: Factors, slope: Tensor) -> Tensor:
        by_place = slope.transpose(0, 1)  # (N, b, a)
        by_place = by_place if self._apart else by_place @ self.pooling
        opened = self.opened(rows, factors.gate)
        gated = by_place if opened is None else by_place * opened.to(self.dtype)
        return self._channels_first(gated.reshape(factors.n_neurons, -1) @ self.patches(rows).flatten(0, 1))

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        patches = self.patches(rows)
        hidden = (self._channels_last(factors.left) @ patches.flatten(0, 1).T).view(-1, len(patches), self.K)
        opened = self.opened(rows, factors.gate)
        gated = hidden if opened is None else hidden * opened.to(self.dtype)  # cast once, for both directions
        return (gated if self._apart else gated @ self.pooling.T).transpose(0, 1)

    @cached_property
    def _apart(self) -> bool:
        """Whether every position is a cell of its own."""
        return self.cells == self.K and torch.equal(
            self.pooling, torch.eye(self.K, dtype=self.pooling.dtype, device=self.pooling.device)
        )

    @property
    def _most_kept(self) -> int:
        """Where nothing is pooled, features are patches, once for every gate; narrow ones are made sooner."""
        narrow = self._apart and self.patterns is not None and self.p < self.outputs
        return batches.KEPT if narrow else super()._most_kept

    def neuron_numbers(self) -> int:
        return 2 * self.K

    def numbers(self, factors: Factors) -> int:
        return super().numbers(factors) + self.K * self.p

    def sample_sizes(self) -> Tensor:
        return self._sizes

    @cached_property
    def _sizes(self) -> Tensor:
        """‖|P| |Φ_i|‖_F: no gate makes features larger."""
        sizes = self.space.empty(self.n)
        for rows in self._patch_batches(slice(0, self.n)):
            sizes[rows] = torch.linalg.vector_norm(self.pooling.abs() @ self.patches(rows).abs(), dim=(1, 2))
        return sizes

    @property
    def depth(self) -> int:
        return self.K + self.cells + 10
