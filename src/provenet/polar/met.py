"""Bounds of polars that took many passes over the data, met again: the polar of a gate moves no faster than Θ does.

    γ°(A_k*Θ) ≤ t γ°(A_k*Θ') + γ°(1) ‖A‖ ‖Θ − tΘ'‖

The certificate of a run's network asks for the polars at the gradient where the last look of the run has just proven
them, but for the last digits.  Only what is done within `remembering` remembers anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet.gauges import Bounds, Gauge
from provenet.operators import Operator
from provenet.polar.lanczos import LOOKS

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class Met:
    """Bounds of every gate's polar at one Θ (n, …, c)."""

    operator: Operator
    theta: Tensor
    bounds: Bounds

    def at(self, gauge: Gauge, theta: Tensor) -> Bounds:
        """Those that follow at another Θ."""
        op = self.operator
        share = float((theta * self.theta).sum()) / max(float(self.theta.square().sum()), 1e-300)
        share = max(share, 0.0)
        apart = float(torch.linalg.vector_norm(theta - share * self.theta))
        apart += 4 * _EPS * float(torch.linalg.vector_norm(theta))  # the difference rounds
        moved = gauge.rounding(op.p, op.q) * op.norm_upper() * apart * (1 + theta.numel() * _EPS)
        lower, upper = share * self.bounds.lower - moved, (share * self.bounds.upper + moved) * (1 + 4 * _EPS)
        return replace(self.bounds, lower=lower.clamp_min(0.0), upper=upper)


@dataclass
class _Run:
    """Its last bounds, and how many there were: the stated probability is that of `LOOKS` of them together."""

    last: Met | None = None
    made: int = 0


_RUN: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """What is done in here meets the last bounds again."""
    token = _RUN.set(_Run())
    try:
        yield
    finally:
        _RUN.reset(token)


def met(operator: Operator, gauge: Gauge, theta: Tensor) -> Bounds | None:
    """What the last bounds of this operator say at Θ; None where there are none."""
    run = _RUN.get()
    last = None if run is None else run.last
    return last.at(gauge, theta) if last is not None and last.operator is operator else None


def remember(operator: Operator, theta: Tensor, bounds: Bounds) -> None:
    run = _RUN.get()
    if run is not None and not operator.shards.spread:  # distances are of all samples
        run.made += 1
        run.last = Met(operator, theta, bounds) if run.made < LOOKS else None
