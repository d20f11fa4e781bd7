"""The size of a program's curvature: where step lengths and penalties start from."""

from __future__ import annotations

import torch

from provenet.problem import Program


def gradient_curvature(program: Program) -> float:
    """‖A*g‖²/⟨g, M⁻¹g⟩ with g = ∇L(0) and M = sup ℓ''·W: the Rayleigh quotient of MAA* at the gradient.

    Repeating a sample does what doubling its weight does, and weights in another unit scale it as they scale the
    objective: methods that start from it treat a weight of two as a sample repeated.  Zero where g is.
    """
    loss = program.loss
    g = loss.gradient(torch.zeros_like(loss.target))
    size = float((g.square() / (loss.curvature * loss.weight)).sum())
    return float(program.operator.adjoint(g).square().sum()) / size if size > 0 else 0.0
