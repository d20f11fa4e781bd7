"""Blocks: network → convex program → network."""

from provenet.blocks.base import Block
from provenet.blocks.formulate import BLOCKS, formulate, make_block
from provenet.blocks.mlp import MLP

__all__ = ["BLOCKS", "MLP", "Block", "formulate", "make_block"]
