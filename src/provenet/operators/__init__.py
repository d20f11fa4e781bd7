"""Linear operators ``A : Z ↦ Ŷ``, one a file.  They know no loss, no gauge and no solver."""

from provenet.operators.bases.base import GatedRows, Operator
from provenet.operators.bases.batched import BatchedOperator
from provenet.operators.bases.features import FeatureOperator
from provenet.operators.bases.moments import MomentOperator
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.blocks.attention import attention_operator
from provenet.operators.blocks.cnn import CNNOperator
from provenet.operators.blocks.fourier import FNOTokensOperator
from provenet.operators.blocks.fourier_mean import FNOMeanOperator
from provenet.operators.blocks.mixer import MixerMeanOperator, MixerTokensOperator
from provenet.operators.blocks.mlp import MLPOperator
from provenet.operators.blocks.tokens import TokenMeanOperator, TokenRowsOperator
from provenet.operators.wrappers.by_output import ByOutput
from provenet.operators.wrappers.grouped import GroupedOperator
from provenet.operators.wrappers.lifted import Lifted
from provenet.operators.wrappers.repeated import RepeatedOperator

__all__ = [
    "BatchedOperator",
    "ByOutput",
    "CNNOperator",
    "FNOMeanOperator",
    "FNOTokensOperator",
    "FeatureOperator",
    "GatedRows",
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
