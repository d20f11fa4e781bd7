"""How long posing takes, tried on a few samples: gates that there is no time for are not looked for.

Which side of each gate every row is on, and what each gate lets through, is said once of all samples, and cannot be cut
short; how much of it there is can.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch

from provenet import deadline
from provenet.blocks import OnData
from provenet.cones import Cones
from provenet.cones.projection import least
from provenet.gates import Gates
from provenet.ranks import current
from provenet.wrong_use import WrongUse

_SHARE = 0.25  # of the time left, that posing may take: solving and the proof go through as much again
_WARMING, _FEWEST, _PART = 8, 64, 64  # samples: to warm up, and to try with, one in so many
_TRIES = 4  # not all of what posing takes is in proportion to the gates
_ROUND = 0.9


def affordable(on: OnData, count: int, cones: bool = False) -> int:
    """How many of ``count`` gates in each group there is time for, one at least; zero are asked for where activation is
    linear, and there is none.  cones: whether neurons stay in those of ReLU.

    Raises `WrongUse` where there is none even for that.  Several processes have each a clock of its own: they find all.
    """
    left = deadline.left()
    if left == math.inf or current() is not None or not isinstance(on.X, torch.Tensor):
        return count
    share = _SHARE / (1 + cones)  # cones are gone over at each look, and where neurons are moved into them
    needed = _seconds(on, count, cones)
    for _ in range(_TRIES):
        if needed <= share * left or count <= 1:
            break
        count = max(1, math.floor(_ROUND * count * share * left / needed))
        needed = _seconds(on, count, cones)
    if needed > left + deadline.grace(left):
        single = " with a single gate" if count else ""
        raise WrongUse(
            f"max_seconds: {left:.2g} s are left, and posing the problem takes about {needed:.2g} s{single}; "
            f"allow {math.ceil(needed / _SHARE)} s, or take fewer samples."
        )
    return count


def _seconds(on: OnData, count: int, cones: bool) -> float:
    """Of the patterns of so many gates, of what they let through, and of what pulls at each; and of their cones."""
    n, left = len(on.X), deadline.left()
    _posed(on, min(n, _WARMING), count, cones)
    told = 0.0
    for few in sorted({min(n, _FEWEST), min(n, max(_FEWEST, n // _PART))}):
        began = time.perf_counter()
        _posed(on, few, count, cones)
        told = (time.perf_counter() - began) * n / few
        if told > left:  # by far too long: more samples would tell no more
            break
    return told


def _posed(on: OnData, few: int, count: int, cones: bool) -> None:
    some = torch.arange(few) * len(on.X) // few
    part = replace(on, X=on.X[some], mask=None if on.mask is None else on.mask[some])
    gates = _gaussian(part, count) if count else part.open_gates()
    operator = part.operator(gates, 1.0)
    with deadline.of_products():
        operator.adjoint(operator.space.randn(*operator.output_shape, seed=0))
        if cones and part.table is not None and gates.vectors is not None:
            region = Cones.of(part.table.rows, gates.patterns, gates.vectors)
            least(region.rows, region.signs, region.inside)


def _gaussian(on: OnData, count: int) -> Gates:
    groups = len(on.groups)
    vectors = torch.randn(count, on.p, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    patterns = torch.cat([rows.patterns(vectors)[0] for rows in on.groups])
    group = torch.arange(groups).repeat_interleave(count) if groups > 1 else None
    return Gates(vectors.repeat(groups, 1), patterns, group)
