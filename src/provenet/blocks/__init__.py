"""Blocks: their settings, their rows and operators, their networks.  Nothing here solves or certifies."""

from provenet.blocks.attention import SelfAttention
from provenet.blocks.base import Block
from provenet.blocks.cnn import CNN
from provenet.blocks.fourier import BFNO, FNO
from provenet.blocks.mixer import Mixer
from provenet.blocks.mlp import MLP
from provenet.blocks.named import BLOCKS, block_of, make_block, with_intercept
from provenet.blocks.on_data import OnData
from provenet.blocks.rows import Rows, Table
from provenet.blocks.tokens import FNet, PoolFormer, TokenMap

__all__ = [
    "BFNO",
    "BLOCKS",
    "CNN",
    "FNO",
    "MLP",
    "Block",
    "FNet",
    "Mixer",
    "OnData",
    "PoolFormer",
    "Rows",
    "SelfAttention",
    "Table",
    "TokenMap",
    "block_of",
    "make_block",
    "with_intercept",
]
