"""What multipliers of the copositive relaxation prove, whatever their accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.certificates.gap import lower_bound
from provenet.gauges import ConeNuclear
from provenet.problem import Program


def proven(program: Program, theta: Tensor, lift: Tensor, weight: Tensor, terms: int) -> float:
    """A lower bound of p* from any Θ and any ``lift`` = Σ_l λ_l C_l (P, p, p) with λ ≥ 0.

    max ‖Gᵀu‖² over the cone ≤ λ_max(GGᵀ + Σ λ_l C_l), as uᵀC_l u = (a_lᵀu)(b_lᵀu) ≥ 0 there.  For what rounding may do:
    ``weight`` (P,) = Σ_l λ_l, and the number of ``terms`` of a sum.
    """
    G = program.operator.adjoint(theta)
    gram = G @ G.mT
    largest = torch.minimum(torch.linalg.eigvalsh(gram)[:, -1], torch.linalg.eigvalsh(gram + lift)[:, -1]).clamp_min(0)
    p, q = G.shape[1:]
    rounding = (p * q + 8 * (p + terms)) * torch.finfo(G.dtype).eps * (torch.linalg.matrix_norm(gram) + weight)
    rounding = rounding + 2 * _noise(program) * weight
    return lower_bound(program, theta, float((largest + rounding).sqrt().max()))


def _noise(program: Program) -> float:
    """What rounding has done to the cones' unit rows."""
    cones = program.gauge.cones if isinstance(program.gauge, ConeNuclear) else None
    return 0.0 if cones is None or cones.noise is None else float(cones.noise.max())
