"""Small samples for every block that has a name."""

from __future__ import annotations

import numpy as np

from provenet.blocks import BLOCKS, Block

_SETTINGS = {"cnn": {"kernel": 2, "pool": 2}, "bfno": {"groups": 2}}


def block_samples(name: str, n: int = 24, seed: int = 0) -> tuple[Block, np.ndarray]:
    """A block of this name and samples for it: rows (n, 4), tokens (n, 4, 4) or images (n, 2, 4, 4)."""
    block = BLOCKS[name](**_SETTINGS.get(name, {}))
    shape = (4, 4) if block.tokens else (2, 4, 4) if name == "cnn" else (4,)
    return block, np.random.default_rng(seed).standard_normal((n, *shape))
