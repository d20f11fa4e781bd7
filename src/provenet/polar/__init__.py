"""The polar γ°(A_k*Θ) of every gate, bounded from both sides, whatever the size of the stack."""

from provenet.polar.bounds import is_large, polar_bounds
from provenet.polar.krylov import products_of, top_pairs

__all__ = ["is_large", "polar_bounds", "products_of", "top_pairs"]
