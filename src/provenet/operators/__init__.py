"""Linear operators ``A : Z ↦ Ŷ``, one a file.  They know no loss, no gauge and no solver."""

from provenet.operators.attention import AttentionOperator, attention_operator
from provenet.operators.base import Operator
from provenet.operators.batched import BatchedOperator
from provenet.operators.cnn import CNNOperator
from provenet.operators.mlp import MLPOperator
from provenet.operators.pooled import PooledOperator
from provenet.operators.tokens import TokenMeanOperator, TokenRowsOperator

__all__ = [
    "AttentionOperator",
    "BatchedOperator",
    "CNNOperator",
    "MLPOperator",
    "Operator",
    "PooledOperator",
    "TokenMeanOperator",
    "TokenRowsOperator",
    "attention_operator",
]
