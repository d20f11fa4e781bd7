"""The best sizes of neurons with given directions, at any size of the data.

    min_{s ≥ 0}  L(Σ_j s_j A(a_j b_jᵀ)) + β Σ_j s_j,    a_j, b_j unit vectors

Values and slopes are of all samples; the Hessian, which only guides, is of some, and that where the sizes are at first:
it is most of the work, and bends little on the way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.problem import Program
from provenet.solvers.neurons.amplitudes import nonnegative_quadratic
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates
from provenet.space import Space
from provenet.variable import Factors
from provenet.vectors import symmetric_product

_STEPS = 5
_BACKTRACKS = 8
_RIDGE = 1e-5  # of the largest diagonal entry
_TYPICAL = 1e-3  # of a typical curvature: where a loss has none of its own, it still ends
_ENOUGH = 1e-6  # of the objective: a step that gains less is the last
_PIECES = 8  # of samples in a row, evenly spaced, where not all are looked at


def amplitudes(program: Program, here: Coordinates, directions: Factors, sizes: Tensor) -> Tensor:
    """Sizes (N,) ≥ 0 with no larger objective than those given, for neurons of unit layers."""
    if directions.n_neurons == 0:
        return sizes
    here, directions = here.along(directions)
    now = _Sized(program, here, directions, sizes)
    hessian = _hessian(program, here, directions, now.prediction)
    for _ in range(_STEPS):
        there = _towards(now, _target(now, hessian))
        if there is None:
            break
        gained, now = now.value - there.value, there
        if gained <= _ENOUGH * abs(now.value) or deadline.over():
            break
    return now.sizes


def _target(now: _Sized, hessian: Tensor) -> Tensor:
    """The sizes at which a quadratic model is least, of those neurons that are there or would grow."""
    slope, target = now.slope(), torch.zeros_like(now.sizes)
    some = torch.nonzero((now.sizes > 0) | (slope < 0)).flatten()
    if some.numel() == 0:  # nobody is there, and none would grow
        return target
    sizes, bent = now.sizes[some], hessian[some][:, some]
    bent.diagonal().add_(_RIDGE * bent.diagonal().max() + 1e-300)
    target[some] = nonnegative_quadratic(bent, slope[some] - bent @ sizes, sizes)
    return target


class _Sized:
    """Where neurons of these sizes stand."""

    def __init__(self, program: Program, here: Coordinates, directions: Factors, sizes: Tensor):
        self.program, self.here, self.directions, self.sizes = program, here, directions, sizes
        scaled = Factors(
            directions.left, directions.right * sizes.to(here.dtype)[:, None], directions.gate
        )  # all of it in the second layer: the slope is then known of neurons of size zero as well
        rough, self._back = here.both_ways(scaled)
        self.prediction = rough.to(torch.float64)
        self.value = float(program.loss.value(self.prediction)) + program.beta * float(sizes.sum())

    def at(self, sizes: Tensor) -> _Sized:
        return _Sized(self.program, self.here, self.directions, sizes)

    def slope(self) -> Tensor:
        """By each size, (N,)."""
        _, towards = self._back(self.program.loss.gradient(self.prediction).to(self.here.dtype))
        return (towards * self.directions.right).sum(1, dtype=torch.float64) + self.program.beta


def _towards(now: _Sized, target: Tensor) -> _Sized | None:
    length = 1.0
    for _ in range(_BACKTRACKS):
        there = now.at(now.sizes + length * (target - now.sizes) if length < 1 else target)
        if there.value < now.value:
            return there
        length /= 4
        if deadline.over():
            break
    return None


def _hessian(program: Program, here: Coordinates, directions: Factors, prediction: Tensor) -> Tensor:
    """(N, N), of as many samples as make a batch, scaled to all; in float32, as it only guides.  A free intercept
    stays where it is: that overstates the curvature, never the other way."""
    shards, each = program.operator.shards, directions.n_neurons * prediction[0].numel()
    rows = max(1, batches.BATCH // (max(each, 1) * torch.float32.itemsize))  # as many where memory is limited
    prediction = program.loss.at_best(prediction)
    return shards.add(
        _of_shard(program, here, directions, prediction, own, max(1, rows // shards.count), shards.count)
        for own in shards.slices
    )


def _of_shard(
    program: Program, here: Coordinates, directions: Factors, prediction: Tensor, own: slice, rows: int, shards: int
) -> Tensor:
    """Of the samples of a shard, in float64: of so many ``rows``, scaled to all."""
    n, each = own.stop - own.start, directions.n_neurons * prediction[0].numel()
    total = torch.zeros(directions.n_neurons, directions.n_neurons, dtype=torch.float32)
    spaced = [own] if rows >= n else _spaced(own, rows, max(1, _PIECES // shards))
    budget = each, batches.BATCH, torch.float32.itemsize
    pieces = [some for piece in spaced for some in batches.slices(piece.stop, *budget, start=piece.start)]
    for piece in pieces:
        columns = here.alone(directions, piece).to(total.dtype)
        some = program.loss.some(piece).to(Space.of(total))
        where = prediction[piece].to(total.dtype)
        bent = some.hessian_product(where, columns).flatten(1)
        typical = (some.local_curvature(where) * some.sample_weight).view_as(some.weight).expand_as(where).flatten()
        columns = columns.flatten(1)
        total += symmetric_product(columns, bent)
        total.diagonal().addmv_(columns.square(), typical.to(total.dtype), alpha=_TYPICAL)
    seen = sum(piece.stop - piece.start for piece in pieces)
    return total.to(torch.float64).mul_(n / seen)


def _spaced(own: slice, rows: int, pieces: int) -> list[slice]:
    """So many ``rows`` of them, in pieces."""
    each = max(1, rows // pieces)
    spare = own.stop - own.start - each
    starts = [own.start + spare * piece // max(pieces - 1, 1) for piece in range(pieces)]
    return [slice(start, start + each) for start in starts]
