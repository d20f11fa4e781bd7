"""How curved the objective is along every weight: the diagonal of Gauss and Newton's matrix, as one probe shows it.

With residuals z of independent signs, and h a typical curvature of the loss at each sample, the squares of A*(√h z) on
neurons are on average that diagonal.  One probe is noisy entry by entry; over a layer it is not.  So a neuron's first
layer gets one number, spread along the axes as the data are, and its second layer another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, Spot

_LEAST = 1e-3  # of the mean: no direction is flatter, but for the penalty


def inverse_scales(program: Program, here: Coordinates, at: Spot, seed: int) -> Tensor:
    """(N, p + q)."""
    loss, factors = program.loss, at.factors
    curvature = (loss.local_curvature(at.prediction) * loss.sample_weight).view_as(loss.weight)
    signs = here.operator.space.move(here.operator.shards.randn(*at.prediction.shape, seed=seed)).sign()
    left, right = here.adjoint_factors(signs * curvature.sqrt().to(here.dtype), factors)
    first, second = left.square(), right.square()
    along = first.mean(0) if here.moments is None else here.moments
    along = along / along.sum().clamp_min(torch.finfo(along.dtype).tiny)
    along = along.clamp_min(_LEAST / len(along))
    by_layer = torch.cat(
        [first.sum(1, keepdim=True) * along, second.mean(1, keepdim=True).expand_as(factors.right)], dim=1
    )
    return (by_layer + program.beta).reciprocal_()
