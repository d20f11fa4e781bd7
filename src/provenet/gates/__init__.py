"""Which gates a block has: sampled hyperplanes, one pattern each."""

from provenet.gates.sampling import patterns, sample_gates, undecided

__all__ = ["patterns", "sample_gates", "undecided"]
