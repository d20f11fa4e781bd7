"""The polar γ°(A_k*Θ) of every gate: dense where the stack is small, by products with vectors where it is not."""

from __future__ import annotations

from torch import Tensor

from provenet.gauges import Bounds, Gauge
from provenet.operators import Operator

__all__ = ["polar_bounds"]


def polar_bounds(operator: Operator, gauge: Gauge, theta: Tensor, final: bool = False) -> Bounds:
    """Bounds (P,) of γ°(A_k*Θ); ``final``: of the best kind that can be afforded once."""
    return gauge.polar(operator.adjoint(theta))
