"""The polar γ°(A_k*Θ) of every gate, bounded from both sides, whatever the size of the stack."""

from provenet.polar.bounds import is_dear, is_large, polar_bounds
from provenet.polar.krylov import Pairs, leading_by_products, products_of, top_pairs
from provenet.polar.met import remembering

__all__ = [
    "Pairs",
    "is_dear",
    "is_large",
    "leading_by_products",
    "polar_bounds",
    "products_of",
    "remembering",
    "top_pairs",
]
