"""Small inputs for every block: what the contracts run on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet.blocks import BLOCKS, Block, TokenMap, make_block


@dataclass(frozen=True)
class Example:
    """A block, the shape of one sample of it, and how many outputs it is to have."""

    name: str
    sample: tuple[int, ...]
    outputs: int = 2
    settings: dict[str, Any] = field(default_factory=dict)
    masked: bool = False

    @property
    def block(self) -> Block:
        return TokenMap(**self.settings) if self.name == "token_map" else make_block(self.name, **self.settings)

    @property
    def readouts(self) -> tuple[str, ...]:
        return ("mean", "tokens") if self.block.tokens else ("mean",)

    def samples(self, n: int, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((n, *self.sample))

    def mask(self, n: int, seed: int = 0) -> np.ndarray | None:
        """(n, s), a token or more in every sample."""
        if not self.masked:
            return None
        there = np.random.default_rng(seed).random((n, self.sample[0])) < 0.6
        there[:, 0] |= ~there.any(axis=1)
        return there

    def __str__(self) -> str:
        shape = "x".join(map(str, self.sample))
        rest = [f"{name}={value}" for name, value in self.settings.items() if name not in ("function", "pool")]
        return "-".join([self.name, shape, *rest, *(["masked"] if self.masked else [])])


def difference(X: Tensor) -> Tensor:
    """A map of tokens that changes their features' number: each token, and what it has over the one before."""
    return torch.cat([X, X - X.roll(1, 1)], dim=2)


_POOL = ((0.5, -1.0, 0.0, 0.25), (0.0, 2.0, 1.0, 1.0))  # a matrix of a user's

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "mlp": (Example("mlp", (3,)), Example("mlp", (2,), settings={"fit_intercept": True})),
    "cnn": (
        Example("cnn", (2, 4, 3), settings={"kernel": 2, "pool": 2}),
        Example("cnn", (1, 7), settings={"kernel": 3, "stride": 2, "padding": 2, "dilation": 2, "pool": _POOL}),
        Example("cnn", (2, 3, 4), settings={"kernel": (2, 3), "padding": (1, 0), "pool": 1, "fit_intercept": True}),
    ),
    "attention": (
        Example("attention", (3, 2)),
        Example("attention", (2, 2), settings={"scale": "sqrt_d"}, masked=True),
    ),
    "mixer": (Example("mixer", (2, 3)), Example("mixer", (3, 1), outputs=3)),
    "fno": (Example("fno", (3, 2)), Example("fno", (6, 1), settings={"grid": (2, 3)})),
    "bfno": (
        Example("bfno", (3, 4), settings={"groups": 2}),
        Example("bfno", (4, 3), outputs=3, settings={"groups": 3, "grid": (2, 2)}),
    ),
    "poolformer": (
        Example("poolformer", (6, 2), settings={"grid": (2, 3)}),
        Example("poolformer", (9, 2), settings={"window": 5}),
    ),
    "fnet": (Example("fnet", (3, 2)), Example("fnet", (1, 4), outputs=3)),
    "token_map": (Example("token_map", (3, 2), settings={"function": difference}),),
}


def examples() -> Iterator[Example]:
    """Every example of every block; a block without one is an error."""
    for name in (*BLOCKS, "token_map"):
        if name not in EXAMPLES:
            raise LookupError(f"block {name!r} has no example: give it some in {__name__}.EXAMPLES.")
        yield from EXAMPLES[name]
