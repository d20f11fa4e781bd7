"""Reductions: a program as a smaller or an easier one with the same predictions, and the way back."""

from provenet.reductions.base import Back, Reduction, reduced
from provenet.reductions.inside import Inside
from provenet.reductions.low_rank import LowRank
from provenet.reductions.pairs import SignedPairs
from provenet.reductions.wrapped import ByOutputs, Signs

# what every method gets, unless it says otherwise
STANDARD: tuple[Reduction, ...] = (LowRank(), Signs(), ByOutputs())

__all__ = ["STANDARD", "Back", "ByOutputs", "Inside", "LowRank", "Reduction", "SignedPairs", "Signs", "reduced"]
