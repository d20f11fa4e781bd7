"""Plain torch modules: what a user ships.  They import nothing of the rest of the package."""

from provenet.nn.attention import SelfAttention
from provenet.nn.backbone import Head, WithBackbone, with_backbone
from provenet.nn.base import TwoLayer
from provenet.nn.cnn import CNN
from provenet.nn.fourier import BFNO, FNO
from provenet.nn.layers import Layers, Stage
from provenet.nn.mixer import Mixer
from provenet.nn.mlp import MLP
from provenet.nn.normalise import Normalise
from provenet.nn.projections import Projections, from_multihead, from_projections, to_projections
from provenet.nn.reduction import Reduction
from provenet.nn.standardised import Standardised
from provenet.nn.tokens import FNet, PoolFormer, TokenMap

__all__ = [
    "BFNO",
    "CNN",
    "FNO",
    "MLP",
    "FNet",
    "Head",
    "Layers",
    "Mixer",
    "Normalise",
    "PoolFormer",
    "Projections",
    "Reduction",
    "SelfAttention",
    "Stage",
    "Standardised",
    "TokenMap",
    "TwoLayer",
    "WithBackbone",
    "from_multihead",
    "from_projections",
    "to_projections",
    "with_backbone",
]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
