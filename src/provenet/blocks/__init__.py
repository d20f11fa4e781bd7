"""Blocks: network → convex program → network."""

from provenet.blocks.attention import SelfAttention
from provenet.blocks.base import Block
from provenet.blocks.certify import block_of, certify
from provenet.blocks.cnn import CNN
from provenet.blocks.formulate import BLOCKS, formulate, make_block
from provenet.blocks.fourier import BFNO, FNO
from provenet.blocks.mixer import Mixer
from provenet.blocks.mlp import MLP
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
    "PoolFormer",
    "SelfAttention",
    "TokenMap",
    "block_of",
    "certify",
    "formulate",
    "make_block",
]
