"""Fewer directions of first layers, where the data have fewer (CP A.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones.projection import in_spans
from provenet.gauges import Gauge, RegionGauge
from provenet.polar import is_large
from provenet.problem import Program
from provenet.reductions.base import Back, Reduction
from provenet.variable import Factors
from provenet.vectors import power_of_two

_PROBES = 8


@dataclass(frozen=True)
class LowRank(Reduction):
    """X = UDVᵀ: first layers are Vu, u of the length of the rank.  What is orthogonal to V only adds penalty."""

    def apply(self, program: Program) -> tuple[Program, Back] | None:
        found = program.operator.reduced()
        gauge = None if found is None else program.gauge.within(found[1])
        if found is None or gauge is None:
            return None
        small = replace(program, operator=found[0], gauge=gauge)
        return small, _InBasis(program, small, found[1])


@dataclass(frozen=True)
class _InBasis(Back):
    """basis (p, r): orthonormal."""

    whole: Program
    small: Program
    basis: Tensor

    def factors(self, factors: Factors) -> Factors:
        return replace(factors, left=factors.left @ self.basis.T)

    def start(self, factors: Factors) -> Factors:
        return replace(factors, left=factors.left @ self.basis)

    def hidden(self, theta: Tensor) -> float:
        """‖A_k*Θ − V A'_k*Θ‖, the largest of any gate: directions that were left out as rounding may still pull, and
        more than β where that is as small.  The rounding of both adjoints is added, and that of V."""
        operator, small = self.whole.operator, self.small.operator
        unit = power_of_two(theta)
        theta = theta / unit
        try:
            if is_large(operator) or not _spanned(self.whole.gauge, self.basis):
                return math.inf
            slope, within = operator.adjoint(theta), small.adjoint(theta)
        except deadline.TooLong:  # nothing is known of it
            return math.inf
        size = torch.linalg.matrix_norm(slope)
        outside = float(torch.linalg.matrix_norm(slope - self.basis @ within).max())
        turned = 4 * max(self.basis.shape) * torch.finfo(slope.dtype).eps * float(size.max())
        pull = self.whole.gauge.rounding(operator.p, operator.q)
        return unit * pull * (outside + operator.rounding(theta) + turned)


def _spanned(gauge: Gauge, basis: Tensor) -> bool:
    """Whether the basis (p, r) spans the walls of the cones too, if there are any: unit rows, however short those of
    the data are.  Asked of a few random vectors orthogonal to it."""
    if not isinstance(gauge, RegionGauge):
        return True
    chance = torch.randn(_PROBES, len(basis), generator=torch.Generator().manual_seed(0), dtype=basis.dtype)
    outside = [float(part.abs().max()) for _, part in in_spans(gauge.region.rows, chance - chance @ basis @ basis.T)]
    return bool(max(outside) <= (len(basis) + 64) * torch.finfo(basis.dtype).eps * len(basis) ** 0.5)
