"""A start from fewer samples: what they say of the neurons costs in proportion to how many they are.

The mean loss of a random part of the samples is about that of all, so with β in proportion its optimum is near theirs:
near enough that most steps, and looks, are made on few samples.  Where a start comes from proves nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from provenet import deadline
from provenet.problem import Program
from provenet.solvers.loop import Limits, Method, Run, run
from provenet.solvers.snapshot import no_snapshots

_PARTS = 4  # one sample in so many; of these, again
_LEAST = 2_500  # samples: fewer say too little,
_EACH_OUTPUT = 20  # and so do fewer than this for each output
_ROUGHLY = 3e-2  # the gap to which they are fitted: their optimum is no nearer to that of all
_SHARE = 0.3  # of the time that is left


def is_enough(program: Program) -> bool:
    """Whether a part of the samples says enough."""
    op = program.operator
    few = op.output_shape[0] // _PARTS
    return few >= max(_LEAST, _EACH_OUTPUT * op.output_shape[-1]) and not op.shards.spread and not op.in_shards


def from_fewer(method: Method[Any], program: Program) -> Run | None:
    """The method's own run on some of the samples; None where these would be too few."""
    if not is_enough(program):
        return None
    op = program.operator
    few = op.output_shape[0] // _PARTS
    some = torch.randperm(op.output_shape[0], generator=torch.Generator().manual_seed(few))[:few].sort().values
    operator = op.part(some.to(op.space.device))
    if operator is None:
        return None
    weight = program.loss.sample_weight
    share = float(weight[some].sum() / weight.sum())
    small = replace(program, operator=operator, loss=program.loss.part(some)).with_beta(share * program.beta)
    left = deadline.left()
    limits = Limits(_ROUGHLY, max_seconds=None if left == math.inf else _SHARE * left)
    with no_snapshots():
        return run(method, small, limits)
