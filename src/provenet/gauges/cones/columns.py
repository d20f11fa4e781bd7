"""ReLU with the 1-norm for second layers: ½ Σ_j (‖u_j‖₂² + ‖v_j‖₁²), u_j in the cones (BM Lemma 3.1, Thm B.1).

The 1-norm's ball has unit vectors for corners, so that a neuron writes to one output: the gauge of Z_k is the sum over
its columns of the cone-nuclear norm, and the polar the largest over the columns of G_k of ‖Proj_K(±g)‖, both exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from provenet.gauges.base import NOTHING, Asked, Bounds, R_co, RegionGauge
from provenet.gauges.cones.nuclear import ConeNuclear
from provenet.gauges.prox.mixed import norms
from provenet.variable import Factors, Stack


@dataclass(frozen=True)
class ConeColumns(RegionGauge[R_co]):
    """It certifies; solvers take the program of neurons with one output each (`operators.ByOutput`), and the gauge
    `apart`."""

    def apart(self, outputs: int) -> ConeNuclear:
        """The gauge of columns (outputs·P, p, 1), those of one output following one another."""
        every = self.region.space.arange(len(self.region.signs))
        return ConeNuclear(self.region.restrict(every.repeat(outputs)))

    def penalty(self, factors: Factors) -> Tensor:
        return 0.5 * (norms(factors.left, 2).square().sum() + norms(factors.right, 1).square().sum())

    def polar(self, stack: Stack) -> Bounds:
        return _largest_column(self.apart(stack.shape[2]).polar(_columns(stack)), stack.shape[2])

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        return _largest_column(self.apart(stack.shape[2]).largest(_columns(stack), asked), stack.shape[2])


def _columns(stack: Stack) -> Stack:
    """(P, p, c) → (c·P, p, 1)."""
    return stack.permute(2, 0, 1).flatten(0, 1).unsqueeze(2)


def _largest_column(found: Bounds, outputs: int) -> Bounds:
    lower, upper = (part.view(outputs, -1).amax(0) for part in (found.lower, found.upper))
    return Bounds(lower, upper, found.kind)
