"""Token mixing without weights: PoolFormer, FNet, and any h(X) (AT eq. 158–160)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d
from typing_extensions import Unpack

from provenet.nn.base import Neurons, OnTokens, read_out, transformable
from provenet.nn.settings import Grid, Neighbourhood


class TokenRows(OnTokens):
    """X (s, d) ↦ Σ_j (D_j h(X) u_j) v_jᵀ, then the readout: ``mean`` over tokens, or all ``tokens``."""

    @abstractmethod
    def lift(self, x: Tensor) -> Tensor:
        """h(X), (b, s, p)."""

    def hidden(self, x: Tensor, weights: Tensor) -> Tensor:
        """(b, s, N)."""
        return x @ weights.T

    def output(self, x: Tensor, hidden: Tensor) -> Tensor:
        return read_out(hidden, self.readout) @ self.second


class PoolFormer(TokenRows):
    """h(X) = PX: each token's ``window`` × ``window`` neighbourhood on the grid, averaged; then two layers.

    Parameters
    ----------
    d, c, readout, **neurons
        As in `FNO`.
    grid
        As in `provenet.PoolFormer`.
    window
        As there.
    """

    kind = Neighbourhood

    def __init__(
        self,
        d: int,
        c: int,
        *,
        readout: str = "mean",
        grid: Grid | None = None,
        window: int = 3,
        **neurons: Unpack[Neurons],
    ):
        super().__init__(d, c, **neurons)
        self._configure(readout, grid=grid, window=window)

    def lift(self, x: Tensor) -> Tensor:
        return pool_tokens(x, self.chosen)


class FNet(TokenRows):
    """h(X) = Re(F_s X F_dᵀ): the real part of the Fourier transform over tokens and features; then two layers.

    Parameters
    ----------
    d, c, readout, **neurons
        As in `FNO`.
    """

    def __init__(self, d: int, c: int, *, readout: str = "mean", **neurons: Unpack[Neurons]):
        super().__init__(d, c, fan=d, **neurons)  # as many add up to a coefficient
        self._configure(readout)

    def lift(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(transformable(x)).real.to(x.dtype)


class TokenMap(TokenRows):
    """Two layers behind h(X) by a function of yours, without weights to train.

    Parameters
    ----------
    function : callable
        (b, s, d) → (b, s', p).
    p : int
        Features of its tokens.
    c, readout, **neurons
        As in `FNO`.
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        p: int,
        c: int,
        *,
        readout: str = "mean",
        **neurons: Unpack[Neurons],
    ):
        super().__init__(p, c, **neurons)
        self._configure(readout, function=function)

    def _configure(self, readout: str = "mean", **settings: Any) -> None:
        self.function = settings.pop("function")
        super()._configure(readout, **settings)

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"function": self.function}

    def lift(self, x: Tensor) -> Tensor:
        return self.function(x)


def pool_tokens(x: Tensor, around: Neighbourhood) -> Tensor:
    """Each token's neighbourhood averaged, (b, s, d) → (b, s, d)."""
    b, s, d = x.shape
    height, width = around.grid_of(s)
    image = x.transpose(1, 2).reshape(b, d, height, width)
    pooled = avg_pool2d(image, around.window, stride=1, padding=around.window // 2, count_include_pad=False)
    return pooled.flatten(2).transpose(1, 2)
