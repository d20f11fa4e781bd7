"""The two-layer convolutional network with linear pooling (BM eq. 6, 22; CP eq. 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, conv1d, conv2d
from typing_extensions import Self, Unpack

from provenet.nn.base import Neurons, TwoLayer
from provenet.nn.settings import check_switch, times

Sizes = int | tuple[int, ...]
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Convolution:
    """How a kernel walks over sequences (n, channels, length) or images (n, channels, height, width), and how the K
    positions it stops at are pooled to a values; settings as `provenet.CNN` has them."""

    kernel: Sizes = 3
    stride: Sizes = 1
    padding: Sizes = 0
    dilation: Sizes = 1
    pool: Sizes | Matrix = 1
    fit_intercept: bool = False

    def __post_init__(self) -> None:
        for name, least in (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            object.__setattr__(self, name, _sizes(name, getattr(self, name), least))
        object.__setattr__(self, "pool", _pool(self.pool))
        check_switch("fit_intercept", self.fit_intercept)

    def per_dimension(self, name: str, dims: int) -> tuple[int, ...]:
        """kernel, stride, padding, dilation or a pool of cells as one number a dimension."""
        value = getattr(self, name)
        if isinstance(value, int):
            return (value,) * dims
        if len(value) != dims:
            raise ValueError(f"{name}: {value} has {len(value)} sizes, but X has {dims} dimensions to walk over.")
        return value

    @cached_property
    def matrix(self) -> Tensor | None:
        """The user's pooling matrix (a, K); None where pool is a grid of cells."""
        if isinstance(self.pool, int) or isinstance(self.pool[0], int):
            return None
        return torch.tensor(self.pool, dtype=torch.float64)

    def patch(self, channels: int, dims: int) -> int:
        """p, how many numbers a patch has."""
        return channels * prod(self.per_dimension("kernel", dims)) + self.fit_intercept

    def cells(self, dims: int) -> int:
        """a, how many values pooling leaves."""
        return prod(self.per_dimension("pool", dims)) if self.matrix is None else len(self.pool)  # type: ignore[arg-type]

    def positions(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Where the kernel stops on X of this shape (n, channels, …), one number a dimension; K is their product."""
        sizes = tuple(shape[2:])
        dims = len(sizes)
        if dims not in (1, 2):
            raise ValueError(
                "X: block 'cnn' needs sequences (n, channels, length) or images (n, channels, height, width), "
                f"got {tuple(shape)}."
            )
        kernel, stride, padding, dilation = (
            self.per_dimension(name, dims) for name in ("kernel", "stride", "padding", "dilation")
        )
        reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
        room = tuple(size + 2 * pad for size, pad in zip(sizes, padding, strict=True))
        if any(r > size for r, size in zip(reach, room, strict=True)):
            raise ValueError(
                f"kernel: with its dilation it reaches over {times(reach)}, but X of shape {tuple(shape)}, padding "
                f"included, has {times(room)}; take a smaller kernel or dilation, or more padding."
            )
        found = tuple((size - r) // s + 1 for size, r, s in zip(room, reach, stride, strict=True))
        self._check_pool(found)
        return found

    def _check_pool(self, positions: tuple[int, ...]) -> None:
        if self.matrix is not None:
            if self.matrix.shape[1] != prod(positions):
                raise ValueError(
                    f"pool: the matrix has {self.matrix.shape[1]} columns, shape {tuple(self.matrix.shape)}, but the "
                    f"kernel stops at {times(positions)} = {prod(positions)} positions."
                )
            return
        cells = self.per_dimension("pool", len(positions))
        if any(cell > position for cell, position in zip(cells, positions, strict=True)):
            raise ValueError(f"pool: {times(cells)} cells, but the kernel stops at {times(positions)} positions only.")


class CNN(TwoLayer):
    """x ↦ Σ_j V_j pool(D_j (u_j ∗ x)): sequences (n, channels, length) or images (n, channels, height, width) → (n, c).

    u_j (channels, kernel), then a bias with ``fit_intercept``, V_j (c, a); average pooling averages.

    Parameters
    ----------
    channels : int
        Of the inputs.
    c : int
        Outputs.
    kernel : int or one a dimension
        As in `provenet.CNN`.
    stride : int or one a dimension
        As in `provenet.CNN`.
    padding : int or one a dimension
        As in `provenet.CNN`.
    dilation : int or one a dimension
        As in `provenet.CNN`.
    pool : int, one a dimension, or matrix (a, K)
        As in `provenet.CNN`.
    fit_intercept : bool
        As in `provenet.CNN`.
    dims : int, default 2
        2 for images, 1 for sequences.
    **neurons
        ``rank``, ``n_gates``, ``activation`` and ``seed`` of a fresh module, as in `TwoLayer`.
    """

    def __init__(
        self,
        channels: int,
        c: int,
        kernel: Any = 3,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        pool: Any = 1,
        *,
        fit_intercept: bool = False,
        dims: int = 2,
        **neurons: Unpack[Neurons],
    ):
        if dims not in (1, 2):
            raise ValueError(f"dims: 1 for sequences or 2 for images, got {dims!r}.")
        convolution = Convolution(kernel, stride, padding, dilation, pool, fit_intercept)
        cells = convolution.cells(dims)
        super().__init__(convolution.patch(channels, dims), c * cells, fan=cells, **neurons)
        self._configure(**asdict(convolution))

    def _configure(self, **settings: Any) -> None:
        self.convolution = Convolution(**settings)
        self._matrix = self.convolution.matrix  # no buffer: it keeps its precision when the weights change theirs

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        moved = super()._apply(fn, recurse)
        if self._matrix is not None and self._matrix.device != self.first.device:
            self._matrix = self._matrix.to(self.first.device)
        return moved

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self.convolution)

    def lift(self, x: Tensor) -> Tensor:
        self.convolution.positions(x.shape)
        size = self.convolution.patch(x.shape[1], x.ndim - 2)
        if size != self.first.shape[1]:
            raise ValueError(
                f"x: {x.shape[1]} channels, shape {tuple(x.shape)}, need {size} weights a neuron, but the network has "
                f"{self.first.shape[1]}."
            )
        return x

    def forward(self, x: Tensor) -> Tensor:
        if self.first.shape[0] == 0:  # nor does it pool nothing
            a = self.convolution.cells(x.ndim - 2)
            return self.biased(self.second.new_zeros(x.shape[0], self.second.shape[1] // a))
        return super().forward(x)

    neuron_axis = 1

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(b, N, length') or (b, N, height', width')."""
        dims = x.ndim - 2
        if len(weights) == 0:  # torch convolves with one filter or more
            return x.new_zeros(len(x), 0, *self.convolution.positions(x.shape))
        kernel, stride, padding, dilation = (
            self.convolution.per_dimension(name, dims) for name in ("kernel", "stride", "padding", "dilation")
        )
        bias = weights[:, -1] if self.convolution.fit_intercept else None
        filters = (weights if bias is None else weights[:, :-1]).reshape(-1, x.shape[1], *kernel)
        if dims == 1:
            return conv1d(x, filters, bias, stride, padding, dilation)
        return conv2d(x, filters, bias, stride, padding, dilation)

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        pooled = self._pool(hidden)  # (b, N, a)
        b, N, a = pooled.shape
        second = self.second.view(N, -1, a).transpose(1, 2)  # (N, a, c)
        return pooled.reshape(b, N * a) @ second.reshape(N * a, -1)

    def _pool(self, hidden: Tensor) -> Tensor:
        if self._matrix is not None:
            return hidden.flatten(2) @ self._matrix.T.to(hidden)
        cells = self.convolution.per_dimension("pool", hidden.ndim - 2)
        if len(cells) == 1:
            return adaptive_avg_pool1d(hidden, cells[0])
        return adaptive_avg_pool2d(hidden, (cells[0], cells[1])).flatten(2)


def pooling_matrix(convolution: Convolution, positions: Sequence[int]) -> Tensor:
    """pool as a matrix (a, K), float64, positions and cells row-major."""
    if convolution.matrix is not None:
        return convolution.matrix
    matrix = torch.ones(1, 1, dtype=torch.float64)
    for cells, length in zip(convolution.per_dimension("pool", len(positions)), positions, strict=True):
        average = adaptive_avg_pool1d(torch.eye(length, dtype=torch.float64), cells).T  # (cells, length)
        (a, K), (b, L) = matrix.shape, average.shape
        matrix = (matrix[:, None, :, None] * average[None, :, None, :]).reshape(a * b, K * L)
    return matrix


def _sizes(name: str, value: Any, least: int) -> Sizes:
    """A whole number, or a tuple of one or two, none below ``least``."""
    many = hasattr(value, "__len__") and not isinstance(value, str)
    sizes = tuple(value) if many else (value,)
    whole = all(isinstance(size, Integral) and not isinstance(size, bool) and int(size) >= least for size in sizes)
    if not whole or len(sizes) not in (1, 2):
        raise ValueError(f"{name}: whole numbers from {least} on are needed, one, or one a dimension; got {value!r}.")
    return tuple(int(size) for size in sizes) if many else int(value)


def _pool(pool: Any) -> Sizes | Matrix:
    """Cells as `_sizes`, or a matrix as tuples of its rows."""
    try:
        table = torch.as_tensor(pool, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"pool: neither a grid of cells nor a matrix of numbers ({error}).") from None
    if table.ndim != 2:
        return _sizes("pool", pool.tolist() if isinstance(pool, Tensor) else pool, 1)
    if not bool(torch.isfinite(table).all()) or not bool(table.any()):
        raise ValueError("pool: a pooling matrix needs finite numbers, not all zero.")
    return tuple(tuple(row) for row in table.tolist())
