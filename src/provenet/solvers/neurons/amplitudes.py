"""The best amplitudes for given directions: a small convex program, whose zeros are the neurons to drop.

    min_{s ≥ 0}  L(Σ_j s_j A(a_j b_jᵀ)) + β Σ_j s_j,    a_j, b_j unit vectors

Descent on the factors shrinks a neuron that is not needed ever more slowly; here it goes at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.problem import Program
from provenet.solvers.neurons.place import Place, place
from provenet.variable import Factors
from provenet.vectors import symmetric_product

_STEPS = 6
_SETTLED = 1e-3  # of what all steps have gained: a step that gains less is the last
_BACKTRACKS = 12
_PATIENCE = 3  # times that no fewer may be on the wrong side
_AS_MUCH = 0.5  # of the steepest slope: whoever has that joins the free set, too
_RIDGE = 1e-12  # of the largest diagonal entry: columns that coincide leave the Hessian singular
_COLUMN_NUMBERS = 2**22  # predictions of all neurons, each its own: beyond, a pass over the data for each is too much


def best_amplitudes(program: Program, at: Place) -> Place:
    """``at`` with its neurons rescaled, by a few Newton steps, and without those that vanish; never a larger
    objective.  Where there are too many predictions to keep, ``at`` as it is."""
    factors = at.factors.select(at.factors.sizes() > 0)
    if factors.n_neurons == 0 or factors.n_neurons * at.prediction.numel() > _COLUMN_NUMBERS:
        return at
    size = factors.sizes()
    columns = program.operator.alone(factors, slice(0, len(at.prediction)))
    columns /= size.view(-1, *([1] * (columns.ndim - 1)))
    amplitude = _newton(program, columns, size)
    root = (amplitude / size).sqrt()[:, None]
    scaled = Factors(factors.left * root, factors.right * root, factors.gate).select(amplitude > 0)
    there = place(program, scaled)
    return there if there.value <= at.value else at


def _newton(program: Program, columns: Tensor, amplitude: Tensor) -> Tensor:
    """Each step goes towards the minimum of the quadratic model over s ≥ 0, so that bounds never shorten it."""
    flat = columns.flatten(1)

    def value(s: Tensor) -> float:
        return float(program.loss.value(torch.tensordot(s, columns, 1))) + program.beta * float(s.sum())

    first = now = value(amplitude)
    for _ in range(_STEPS):
        prediction = torch.tensordot(amplitude, columns, 1)
        slope = flat @ program.loss.gradient(prediction).flatten() + program.beta
        hessian = symmetric_product(flat, program.loss.hessian_product(prediction, columns).flatten(1))
        hessian.diagonal().add_(_RIDGE * hessian.diagonal().max() + 1e-300)
        target = nonnegative_quadratic(hessian, slope - hessian @ amplitude, amplitude)
        length = 1.0
        for _ in range(_BACKTRACKS):
            trial = amplitude + length * (target - amplitude) if length < 1 else target
            there = value(trial)
            if there < now:
                break
            length /= 2
        else:
            break
        amplitude, gained, now = trial, now - there, there
        if gained <= max(_SETTLED * (first - now), 1e-15 * abs(now)):
            break
    return amplitude


def nonnegative_quadratic(Q: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """argmin ½xᵀQx + bᵀx over x ≥ 0, Q positive definite, from x = ``start``: by exchanging all who are on the wrong
    side, which takes few factorisations, or may cycle; then by active sets from the best point met."""
    start = start.clamp_min(0)
    tiny = 1e-14 * float(b.abs().max() + (Q.diagonal() * start).abs().max())
    x, solved = _exchanged(Q, b, start, tiny)
    return x if solved else _by_active_sets(Q, b, x, tiny)


def _solved(Q: Tensor, b: Tensor, free: Tensor) -> Tensor | None:
    """The least point of all x that are zero but for those that are free; None if it cannot be had, or time is over."""
    index = torch.nonzero(free).flatten()
    factor, failed = torch.linalg.cholesky_ex(Q[index][:, index])
    if int(failed) != 0 or deadline.over():
        return None
    x = torch.zeros_like(b)
    x[index] = -torch.cholesky_solve(b[index, None], factor).squeeze(1)
    return x


def _exchanged(Q: Tensor, b: Tensor, start: Tensor, tiny: float) -> tuple[Tensor, bool]:
    """Principal pivoting by blocks (Kim and Park 2011), for as long as those on the wrong side, free and negative or
    fixed and with a slope to grow, become fewer now and then.  The best point x ≥ 0 met, and whether it is the least of
    all."""

    def value(x: Tensor) -> float:
        return float(x @ (0.5 * (Q @ x) + b))

    best, lowest = start, value(start)
    free, fewest, patience = start > 0, len(b) + 1, _PATIENCE
    while patience > 0 and not deadline.over():
        if (x := _solved(Q, b, free)) is None:
            break
        wrong = torch.where(free, x < 0, Q @ x + b < -tiny)
        if (many := int(wrong.sum())) == 0:
            return x, True
        inside = x.clamp_min(0)
        if (there := value(inside)) < lowest:
            best, lowest = inside, there
        fewest, patience = (many, _PATIENCE) if many < fewest else (fewest, patience - 1)
        free = free ^ wrong
    return best, False


def _by_active_sets(Q: Tensor, b: Tensor, start: Tensor, tiny: float) -> Tensor:
    """Lawson and Hanson 1974.  The free set loses whoever would turn negative and gains whoever the gradient asks for
    most, and about as much; each round descends, as not all that join can turn negative at once."""
    x = start.clone()
    free = x > 0
    for _ in range(3 * len(b) + 10):
        for _ in range(len(b)):  # each time but the last one leaves the free set
            wanted = _solved(Q, b, free)
            if wanted is None:
                return x
            bad = torch.nonzero(free & ~(wanted > 0)).flatten()
            if bad.numel() == 0:
                x = wanted
                break
            step, first = (x[bad] / (x[bad] - wanted[bad])).min(0)
            x = torch.where(free, x + step * (wanted - x), 0.0)
            free[bad[x[bad] <= 1e-14 * x.max()]] = False
            free[bad[first]] = False  # by rounding alone it may still be positive
            x = torch.where(free, x, 0.0)
        slope = Q @ x + b
        least = float(torch.where(free, torch.inf, slope).min())
        if least >= -tiny:
            break
        free |= slope <= _AS_MUCH * least
    return x
