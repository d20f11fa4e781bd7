"""Which gates a block has: sampled hyperplanes, one pattern each."""

from provenet.gates.gates import Gates
from provenet.gates.sampling import distinct_gates, pattern_key, sample_gates

__all__ = ["Gates", "distinct_gates", "pattern_key", "sample_gates"]
