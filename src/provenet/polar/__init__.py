"""The polar γ°(A_k*Θ) of every gate, bounded from both sides, whatever the size of the stack."""

from provenet.polar.bounds import is_large, polar_bounds

__all__ = ["is_large", "polar_bounds"]
