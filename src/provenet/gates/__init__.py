"""Which gates a block has: one file a way of finding them, one pattern each."""

from provenet.gates.gates import Gates
from provenet.gates.pool import distinct_gates, pattern_keys

__all__ = ["Gates", "distinct_gates", "pattern_keys"]
