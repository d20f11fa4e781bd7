"""Token mixing without weights: PoolFormer, FNet, and any h(X) (AT eq. 158–160)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from provenet.nn.base import TwoLayer, as_readout, read_out, transformable


class TokenRows(TwoLayer):
    """X (s, d) ↦ Σ_j (D_j h(X) u_j) v_jᵀ, then the readout: ``mean`` over tokens, or all ``tokens``."""

    readout: str

    @abstractmethod
    def lift(self, x: Tensor) -> Tensor:
        """h(X), (b, s, p)."""

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(b, s, N)."""
        return x @ weights.T

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return read_out(hidden, self.readout) @ self.second


class PoolFormer(TokenRows):
    """h(X) = PX: each token's ``window`` × ``window`` neighbourhood on the grid, averaged; cells beyond the grid's edge
    do not count.  ``grid`` (height, width): tokens row-major; None: a square grid."""

    def __init__(
        self,
        d: int,
        c: int,
        rank: int = 1,
        n_gates: int = 32,
        activation: str = "gated_relu",
        readout: str = "mean",
        grid: tuple[int, int] | None = None,
        window: int = 3,
        seed: int = 0,
    ):
        super().__init__(d, c, rank, n_gates, activation, seed)
        self._configure(readout, grid, window)

    def _configure(self, readout: str = "mean", grid: tuple[int, int] | None = None, window: int = 3) -> None:
        if window < 1 or window % 2 == 0:
            raise ValueError(f"window: it must be odd, so that it has a centre, got {window}.")
        self.readout, self.window = as_readout(readout), window
        self.grid = None if grid is None else (grid[0], grid[1])

    @property
    def settings(self) -> dict[str, Any]:
        return {"readout": self.readout, "grid": self.grid, "window": self.window}

    def lift(self, x: Tensor) -> Tensor:
        return pool_tokens(x, self.grid, self.window)


class FNet(TokenRows):
    """h(X) = Re(F_s X F_dᵀ): the real part of the Fourier transform over tokens and features."""

    def __init__(
        self,
        d: int,
        c: int,
        rank: int = 1,
        n_gates: int = 32,
        activation: str = "gated_relu",
        readout: str = "mean",
        seed: int = 0,
    ):
        super().__init__(d, c, rank, n_gates, activation, seed, fan=d)  # as many add up to a coefficient
        self._configure(readout)

    def _configure(self, readout: str = "mean") -> None:
        self.readout = as_readout(readout)

    @property
    def settings(self) -> dict[str, Any]:
        return {"readout": self.readout}

    def lift(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(transformable(x)).real.to(x.dtype)


class TokenMap(TokenRows):
    """h(X) by a function of yours, (b, s, d) → (b, s', p), without weights to train."""

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        p: int,
        c: int,
        rank: int = 1,
        n_gates: int = 32,
        activation: str = "gated_relu",
        readout: str = "mean",
        seed: int = 0,
    ):
        super().__init__(p, c, rank, n_gates, activation, seed)
        self._configure(function, readout)

    def _configure(self, function: Callable[[Tensor], Tensor], readout: str = "mean") -> None:
        self.function, self.readout = function, as_readout(readout)

    @property
    def settings(self) -> dict[str, Any]:
        return {"function": self.function, "readout": self.readout}

    def lift(self, x: Tensor) -> Tensor:
        return self.function(x)


def pool_tokens(x: Tensor, grid: tuple[int, int] | None, window: int) -> Tensor:
    """Each token's neighbourhood averaged, (b, s, d) → (b, s, d)."""
    b, s, d = x.shape
    height, width = grid or (isqrt(s), isqrt(s))
    image = x.transpose(1, 2).reshape(b, d, height, width)
    pooled = avg_pool2d(image, window, stride=1, padding=window // 2, count_include_pad=False)
    return pooled.flatten(2).transpose(1, 2)
