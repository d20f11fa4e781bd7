"""Heads for frozen backbones: many fitted to one embedding, compared, and the best kept."""

from provenet.heads.comparison import Comparison, compare
from provenet.heads.fitting import Row
from provenet.heads.kinds import HEADS
from provenet.heads.model import load, score

__all__ = ["HEADS", "Comparison", "Row", "compare", "load", "score"]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
