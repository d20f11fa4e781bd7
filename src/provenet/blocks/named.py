"""Blocks by name, and by module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from provenet import names
from provenet.blocks.base import Block
from provenet.blocks.mlp import MLP
from provenet.nn import TwoLayer

BLOCKS: Mapping[str, type[Block]] = names.BLOCKS


def make_block(block: str | Block, **settings: Any) -> Block:
    """A block by name, or the block itself."""
    if isinstance(block, Block):
        return block
    if not isinstance(block, str) or block not in BLOCKS:
        raise ValueError(
            f"block: {block!r} is unknown; choose one of {', '.join(map(repr, BLOCKS))} or a block object."
        )
    return BLOCKS[block](**settings)


def with_intercept(block: str | Block, fit_intercept: bool | str | None) -> Block:
    """A block by name; the MLP with its own intercept, a penalised column of ones, where one is asked for.

    A block object has said so itself."""
    return make_block(block, **({"fit_intercept": bool(fit_intercept)} if block == MLP.name else {}))


def block_of(module: TwoLayer) -> Block:
    """The block a module is a network of, with the module's settings."""
    kinds = {kind.module: kind for kind in _below(Block) if "module" in vars(kind)}  # one that is derived has its own
    kind = next((kinds[base] for base in type(module).__mro__ if base in kinds), None)
    if kind is None:
        raise ValueError(f"module: {type(module).__name__} is a network of no block.")
    return kind(**{field.name: module.settings[field.name] for field in fields(kind)})


def _below(kind: Any) -> Iterator[Any]:
    """All classes that derive from ``kind``."""
    for derived in kind.__subclasses__():
        yield derived
        yield from _below(derived)
