"""Blocks: network → convex program → network."""

from provenet.blocks.base import Block
from provenet.blocks.certify import block_of, certify
from provenet.blocks.cnn import CNN
from provenet.blocks.formulate import BLOCKS, formulate, make_block
from provenet.blocks.mlp import MLP
from provenet.blocks.tokens import FNet, PoolFormer, TokenMap

__all__ = [
    "BLOCKS",
    "CNN",
    "MLP",
    "Block",
    "FNet",
    "PoolFormer",
    "TokenMap",
    "block_of",
    "certify",
    "formulate",
    "make_block",
]
