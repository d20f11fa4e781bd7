"""What multipliers of the copositive relaxation prove, whatever their accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.certificates.gap import DualPoint, dual_point, rounding
from provenet.cones import Table
from provenet.cones.relaxation import relaxed
from provenet.cones.search import climb
from provenet.gauges import BoundKind, ConeGauge
from provenet.problem import Program
from provenet.variable import Stack

_GOOD = 1e-10  # of β: what a polar may be above it
_NEAR = 1e-2
_FEW = 16  # gates whose multipliers are found anew


def proven(
    program: Program[ConeGauge[Table]],
    theta: Tensor,
    lift: Tensor,
    weight: Tensor,
    terms: int,
    thoroughly: bool = False,
) -> DualPoint:
    """The lower bound of p* from any Θ and any ``lift`` = Σ_l λ_l C_l (P, p, p) with λ ≥ 0.

    max ‖Gᵀu‖² over the cone ≤ λ_max(GGᵀ + Σ λ_l C_l), as uᵀC_l u = (a_lᵀu)(b_lᵀu) ≥ 0 there.  For what rounding may do:
    ``weight`` (P,) = Σ_l λ_l, and the number of ``terms`` of a sum.  thoroughly: a few bad gates are looked at again.
    """
    G = program.operator.adjoint(theta)
    gram = G @ G.mT
    largest = torch.minimum(torch.linalg.eigvalsh(gram)[:, -1], torch.linalg.eigvalsh(gram + lift)[:, -1]).clamp_min(0)
    p, q = G.shape[1:]
    rounded = (p * q + 8 * (p + terms)) * torch.finfo(G.dtype).eps * (torch.linalg.matrix_norm(gram) + weight)
    polar = (largest + rounded + 2 * _noise(program) * weight).sqrt()
    polar_max = float((_tightened(program, G, polar) if thoroughly else polar).max())
    return dual_point(program, theta, polar_max + rounding(program, theta), BoundKind.DETERMINISTIC)


def _tightened(program: Program[ConeGauge[Table]], G: Stack, polar: Tensor) -> Tensor:
    """Near the optimum rounding leaves the multipliers of a few gates worse than all others, and the largest polar
    counts: theirs are found anew, each gate by itself (`cones.relaxation`)."""
    few = torch.nonzero(polar > program.beta * (1 + _GOOD)).flatten()
    table = program.gauge.region
    near = float(polar.max()) <= program.beta * (1 + _NEAR)
    if table.noise is not None or not 0 < few.numel() <= _FEW or not near:
        return polar
    some = table.restrict(few)
    target = torch.full((len(few),), program.beta, dtype=G.dtype)
    again = relaxed(some, G[few], climb(some, G[few]).u, target) if G.shape[2] > 1 else polar[few]
    return polar.index_copy(0, few, torch.minimum(polar[few], again))


def _noise(program: Program[ConeGauge[Table]]) -> float:
    """What rounding has done to the cones' unit rows."""
    noise = program.gauge.region.noise
    return 0.0 if noise is None else float(noise.max())
