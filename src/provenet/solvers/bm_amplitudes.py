"""The best amplitudes for given directions: a small convex program, whose zeros are the neurons to drop.

    min_{s ≥ 0}  L(Σ_j s_j A(a_j b_jᵀ)) + β Σ_j s_j,    a_j, b_j unit vectors

Descent on the factors shrinks a neuron that is not needed ever more slowly; here it goes at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.bm_factors import Place, place, sizes
from provenet.variable import Factors

_STEPS = 6
_BACKTRACKS = 12
_COLUMN_NUMBERS = (
    2**22
)  # predictions of all neurons, each its own: beyond, a pass over the data for each costs too much


def best_amplitudes(program: Program, at: Place) -> Place:
    """``at`` with its neurons rescaled, by a few projected Newton steps, and without those that vanish; never a larger
    objective.  Where there are too many predictions to keep, ``at`` as it is."""
    factors = at.factors.select(sizes(at.factors) > 0)
    if factors.n_neurons == 0 or factors.n_neurons * at.prediction.numel() > _COLUMN_NUMBERS:
        return at
    size = sizes(factors)
    alone = [factors.select(slice(j, j + 1)) for j in range(factors.n_neurons)]
    columns = torch.stack([program.operator.forward_factors(neuron) for neuron in alone])
    columns /= size.view(-1, *([1] * (columns.ndim - 1)))
    amplitude = _projected_newton(program, columns, size)
    root = (amplitude / size).sqrt()[:, None]
    scaled = Factors(factors.left * root, factors.right * root, factors.gate).select(amplitude > 0)
    there = place(program, scaled)
    return there if there.value <= at.value else at


def _projected_newton(program: Program, columns: Tensor, amplitude: Tensor) -> Tensor:
    """Newton on the amplitudes that are positive or would grow; the others stay at zero (Bertsekas 1982)."""
    flat = columns.flatten(1)

    def value(s: Tensor) -> float:
        return float(program.loss.value(torch.tensordot(s, columns, 1))) + program.beta * float(s.sum())

    now = value(amplitude)
    for _ in range(_STEPS):
        prediction = torch.tensordot(amplitude, columns, 1)
        slope = flat @ program.loss.gradient(prediction).flatten() + program.beta
        free = torch.nonzero((amplitude > 0) | (slope < 0)).flatten()
        if free.numel() == 0:
            break
        bent = program.loss.hessian_product(prediction, columns[free]).flatten(1)
        hessian = flat[free] @ bent.T
        hessian.diagonal().add_(1e-12 * hessian.diagonal().max() + 1e-300)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if int(failed) != 0:
            break
        step = torch.zeros_like(amplitude)
        step[free] = torch.cholesky_solve(slope[free, None], factor).squeeze(1)
        length = 1.0
        for _ in range(_BACKTRACKS):
            trial = (amplitude - length * step).clamp_min(0)
            there = value(trial)
            if there < now:
                break
            length /= 2
        else:
            break
        amplitude, gained, now = trial, now - there, there
        if gained <= 1e-15 * abs(now):
            break
    return amplitude
