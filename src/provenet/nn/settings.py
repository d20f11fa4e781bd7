"""Settings of blocks on tokens, shared by a block and its module, and checked once.  `Convolution` is the CNN's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

Grid = tuple[int, int]

_SCALES = (None, "sqrt_d")


def check_switch(name: str, value: object) -> None:
    """A file may hold anything, and 0.5 of an intercept would be half a column."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: it must be True or False, got {value!r}.")


def times(sizes: Sequence[int]) -> str:
    return " × ".join(map(str, sizes))


@dataclass(frozen=True)
class NoSettings:
    """Of a block that has none."""


@dataclass(frozen=True)
class OnGrid:
    """``grid`` (height, width): how tokens lie, row-major."""

    grid: Grid | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", _as_grid(self.grid))  # frozen, and a list when it comes from a file

    def grid_of(self, s: int) -> Grid:
        """The grid of s tokens; without one they are a sequence."""
        height, width = self.grid or (1, s)
        if height * width != s:
            raise ValueError(f"grid: {height} × {width} = {height * width} tokens, but X has {s}.")
        return height, width


@dataclass(frozen=True)
class InGroups(OnGrid):
    """``groups``: features of group b go into outputs of group b, as many features, and outputs, in each."""

    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise ValueError(f"groups: a whole number from one on is needed, got {self.groups!r}.")

    def check_groups(self, d: int, c: int) -> None:
        for what, size in (("features of X", d), ("outputs of Y", c)):
            if size % self.groups:
                raise ValueError(f"groups: {self.groups} do not divide the {size} {what}.")


@dataclass(frozen=True)
class Neighbourhood(OnGrid):
    """The ``window`` × ``window`` tokens around each; without a ``grid`` the tokens are a square."""

    window: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        window = self.window
        if isinstance(window, bool) or not isinstance(window, int) or window < 1 or window % 2 == 0:
            raise ValueError(f"window: it must be odd, so that it has a centre, got {window!r}.")

    def grid_of(self, s: int) -> Grid:
        if self.grid is not None:
            return super().grid_of(s)
        if isqrt(s) ** 2 != s:
            raise ValueError(f"grid: {s} tokens make no square; give grid=(height, width) with height·width = {s}.")
        return isqrt(s), isqrt(s)

    def check_window(self, s: int) -> None:
        height, width = self.grid_of(s)
        largest = 2 * max(height, width) - 1
        if self.window > largest:
            raise ValueError(
                f"window: {self.window} × {self.window} is larger than any neighbourhood on a {height} × {width} grid; "
                f"{largest} already reaches every token from every other."
            )


@dataclass(frozen=True)
class AttentionScale:
    """``scale=None`` leaves X W₁ Xᵀ as it is, like AT and BM; ``"sqrt_d"`` divides it by √d, as transformers do."""

    scale: str | None = None

    def __post_init__(self) -> None:
        if self.scale not in _SCALES:
            raise ValueError(f"scale: {self.scale!r} is unknown; choose None or 'sqrt_d'.")

    def divisor(self, d: int) -> float:
        return d**0.5 if self.scale == "sqrt_d" else 1.0


def _as_grid(grid: Any) -> Grid | None:
    """(height, width) as whole numbers; None stays None."""
    if grid is None:
        return None
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else ()
    if len(sizes) != 2 or not all(isinstance(size, int) and size >= 1 for size in sizes):
        raise ValueError(f"grid: two sizes (height, width) from one on are needed, got {grid!r}.")
    return sizes[0], sizes[1]
