"""Blocks by name: the form each has, with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod
from typing import Any

import numpy as np

from provenet.verify.forms import CNN, FNO, MLP, Attention, FNet, Mixer, PoolFormer, Rows, cell_means, positions

BLOCKS: dict[str, dict[str, Any]] = {  # with their settings where nothing else is said
    "mlp": {"fit_intercept": False},
    "cnn": {"kernel": 3, "stride": 1, "padding": 0, "dilation": 1, "pool": 1, "fit_intercept": False},
    "attention": {"scale": None},
    "mixer": {},
    "fno": {"grid": None},
    "bfno": {"grid": None, "groups": 1},
    "poolformer": {"grid": None, "window": 3},
    "fnet": {},
    "token_map": {},
}


def make_form(block: str, shape: tuple[int, ...], settings: Mapping[str, Any]) -> Rows:
    """The form of a block for samples of this shape (n, …)."""
    dimensions = {"mlp": (2,), "cnn": (3, 4)}.get(block, (3,))
    if block not in BLOCKS:
        raise ValueError(f"block: {block!r} is unknown; choose one of {', '.join(map(repr, BLOCKS))}.")
    if unknown := set(settings) - set(BLOCKS[block]):
        raise ValueError(f"settings: block {block!r} has no {', '.join(sorted(unknown))}.")
    settings = {**BLOCKS[block], **settings}
    if len(shape) not in dimensions or 0 in shape:
        raise ValueError(
            f"X: block {block!r} needs {' or '.join(map(str, dimensions))} dimensions, none empty, got shape {shape}."
        )
    if block == "mlp":
        return MLP(settings["fit_intercept"])
    if block == "cnn":
        return _cnn(shape, settings)
    if block == "poolformer":
        return PoolFormer(_grid(settings["grid"], shape[1], square=True), settings["window"])
    if block in ("fno", "bfno"):
        return FNO(_grid(settings["grid"], shape[1], square=False))
    if block == "attention":
        if settings["scale"] not in (None, "sqrt_d"):
            raise ValueError(f"scale: None or 'sqrt_d', got {settings['scale']!r}.")
        return Attention(1.0 if settings["scale"] is None else shape[2] ** -0.5)
    return {"fnet": FNet, "mixer": Mixer, "token_map": Rows}[block]()


def _grid(grid: Any, s: int, square: bool) -> tuple[int, int]:
    """(height, width); None is a square or a line."""
    if grid is None:
        grid = (isqrt(s), isqrt(s)) if square else (1, s)
    if len(grid) != 2 or prod(grid) != s:
        raise ValueError(f"grid: {s} tokens do not fill a grid {tuple(grid)}.")
    return int(grid[0]), int(grid[1])


def _cnn(shape: tuple[int, ...], settings: Mapping[str, Any]) -> CNN:
    sides = len(shape) - 2

    def each(name: str) -> tuple[int, ...]:
        value = settings[name]
        return (int(value),) * sides if np.ndim(value) == 0 else tuple(int(v) for v in value)

    kernel, stride, padding, dilation = (each(name) for name in ("kernel", "stride", "padding", "dilation"))
    padded = tuple(a + 2 * pad for a, pad in zip(shape[2:], padding, strict=True))
    places = positions(padded, kernel, stride, dilation)
    if min(places) < 1:
        raise ValueError(f"kernel: {kernel} does not fit into an image {shape[2:]} padded by {padding}.")
    if np.ndim(settings["pool"]) == 2:
        pool = np.asarray(settings["pool"], dtype=np.float64)
        if pool.shape[1] != prod(places):
            raise ValueError(f"pool: a matrix (a, {prod(places)}) is needed, got {pool.shape}.")
    else:
        pool = cell_means(each("pool"), places)
    return CNN(kernel, stride, padding, dilation, pool, bool(settings["fit_intercept"]))
