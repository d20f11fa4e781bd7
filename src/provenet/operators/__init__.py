"""Linear operators ``A : Z ↦ Ŷ``, one a file.  They know no loss, no gauge and no solver."""

from provenet.operators.base import Operator
from provenet.operators.mlp import MLPOperator

__all__ = ["MLPOperator", "Operator"]
