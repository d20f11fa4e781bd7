"""A layer's module of given weights."""

from __future__ import annotations

from torch import Tensor

from provenet.blocks import Block
from provenet.nn import TwoLayer


def module_of(
    block: Block,
    first: Tensor,
    second: Tensor,
    gates: Tensor | None,
    relu: bool,
    readout: str,
    group: Tensor | None = None,
) -> TwoLayer:
    """The block's module with these weights."""
    settings = dict(block.settings()) | ({"readout": readout} if block.tokens else {})
    if block.groups > 1:
        settings["group"] = group
    module: TwoLayer = block.module.from_weights(first, second, gates, relu, **settings)
    return module
