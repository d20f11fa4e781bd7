"""Linear operators ``A : Z ↦ Ŷ``, one a file.  They know no loss, no gauge and no solver."""

from provenet.operators.attention import attention_operator
from provenet.operators.base import Operator
from provenet.operators.batched import BatchedOperator
from provenet.operators.by_output import ByOutput
from provenet.operators.cnn import CNNOperator
from provenet.operators.fourier import FNOMeanOperator, FNOTokensOperator
from provenet.operators.grouped import GroupedOperator
from provenet.operators.lifted import Lifted
from provenet.operators.mixer import MixerMeanOperator, MixerTokensOperator
from provenet.operators.mlp import MLPOperator
from provenet.operators.moments import MomentOperator
from provenet.operators.pooled import PooledOperator
from provenet.operators.repeated import RepeatedOperator
from provenet.operators.tokens import TokenMeanOperator, TokenRowsOperator

__all__ = [
    "BatchedOperator",
    "ByOutput",
    "CNNOperator",
    "FNOMeanOperator",
    "FNOTokensOperator",
    "GroupedOperator",
    "Lifted",
    "MLPOperator",
    "MixerMeanOperator",
    "MixerTokensOperator",
    "MomentOperator",
    "Operator",
    "PooledOperator",
    "RepeatedOperator",
    "TokenMeanOperator",
    "TokenRowsOperator",
    "attention_operator",
]
