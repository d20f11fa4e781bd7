"""Plain torch modules: what a user ships.  They import nothing of the rest of the package."""

from provenet.nn.mlp import MLP

__all__ = ["MLP"]
