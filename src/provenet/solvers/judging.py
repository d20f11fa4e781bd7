"""What a time limit keeps back for the judge: a network's own forward pass over the data, which may take far longer
than a step that knows its features."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch

from provenet import deadline
from provenet.problem import Problem
from provenet.ranks import current
from provenet.variable import Factors

_TRIED = 8  # neurons, and samples: one in so many, but not fewer than
_PART, _FEWEST = 64, 64
_WARMING = 8  # samples: what is done once by the first pass is not one of many
_USUAL = 64  # neurons that a network has, about
_SHARE = 0.3  # of the limit, that their pass may take
_PASSES = 8  # over the rows, of bounds in cones
_OF_GRACE = 0.5  # the other half is for what the proof does besides


class Judging(NamedTuple):
    """kept_back: seconds of the limit.  neurons: how many there is time to judge."""

    kept_back: float = 0.0
    neurons: float = float("inf")

    @staticmethod
    def of(problem: Problem, seconds: float | None) -> Judging:
        """Within a limit of so many seconds; of data in shards, and of several processes, it is not told beforehand."""
        if seconds is None or current() is not None or not isinstance(problem.X, torch.Tensor):
            return Judging()
        each, beyond = _seconds_each(problem), _OF_GRACE * deadline.grace(seconds)
        allowed = min(_SHARE * seconds, _USUAL * each)
        in_cones = min(_SHARE * seconds, _in_cones(problem))
        return Judging(max(allowed - beyond, in_cones, 0.0), max((allowed + beyond) / each, 1.0))


def _in_cones(problem: Problem) -> float:
    """Seconds of the passes over all rows that bounds in the cones of ReLU begin with."""
    if problem.activation != "relu":
        return 0.0
    return _PASSES * float(problem.patterns.numel()) * problem.program.operator.p / deadline.SPEED


def _seconds_each(problem: Problem) -> float:
    """Of a pass, for each neuron."""
    op, n = problem.program.operator, len(problem.X)
    left, right = (torch.ones(_TRIED, size, dtype=torch.float64) for size in (op.p, op.q))
    network = problem.bare_network(Factors(left, right, torch.arange(_TRIED) % op.n_gates))
    few = min(n, max(_FEWEST, n // _PART))
    problem.outputs(network, slice(0, min(few, _WARMING)))
    began = time.perf_counter()
    problem.outputs(network, slice(0, few))
    return max(time.perf_counter() - began, 1e-6) / _TRIED * n / few
