"""Fewer neurons that prove as much.

Interior points leave a dust of tiny neurons, and spread one neuron over all the cones that share its ray.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import duality_gap
from provenet.certificates.gap import relative_gap
from provenet.gauges import ConeColumns, ConeNuclear
from provenet.problem import Program
from provenet.solvers.second_layers import atom_columns, best_second_layers
from provenet.variable import Factors

_DUST = (1e-3, 1e-5, 1e-7)  # of the largest neuron
_CLOSE = (1e-3, 1e-5, 1e-7, 1e-9)  # 1 − cos of the angle at which two neurons' outputs count as one
_GONE = 1e-9  # of the largest: what best second layers leave of a neuron that is not needed
_MOST_UNKNOWNS = 1500  # of second layers
_MOST_NUMBERS = 2**25  # in the outputs of all neurons


def tidied(program: Program, factors: Factors, dual: float, tol: float) -> Factors:
    """The first of fewer and fewer few neurons with a gap of at most ``tol``; all of them, where none has.

    dual: a lower bound of p* that is known; where even it is too far below, no polar is spent.
    """
    ways = (_without_dust, _merged) if _is_cone_program(program) else (_without_dust,)
    for fewer_of in ways:
        for fewer in fewer_of(program, factors):
            if fewer.n_neurons < factors.n_neurons and _proves(program, fewer, dual, tol):
                factors = fewer
                break
            if deadline.over():
                break
    return factors


def _is_cone_program(program: Program) -> bool:
    return isinstance(program.gauge, ConeNuclear) and not isinstance(program.gauge, ConeColumns)


def _proves(program: Program, factors: Factors, dual: float, tol: float) -> bool:
    prediction, penalty = program.operator.forward_factors(factors), float(program.gauge.penalty(factors))
    primal = float(program.loss.value(prediction)) + program.beta * penalty
    return relative_gap(primal, dual) <= tol and duality_gap(program, prediction, penalty).relative <= tol


def _without_dust(program: Program, factors: Factors) -> Iterator[Factors]:
    size = _lengths(factors.left) * _lengths(factors.right)
    for share in _DUST:
        yield factors.select(size > share * size.max() if size.numel() else size > 0)


def _merged(program: Program, factors: Factors) -> Iterator[Factors]:
    """ReLU neurons that do nearly the same, whatever their cones, as the largest of them; second layers are trained
    anew."""
    factors = factors.select((_lengths(factors.left) > 0) & (_lengths(factors.right) > 0))
    N, q = factors.right.shape
    if N < 2 or N * q > _MOST_UNKNOWNS or N * q * program.loss.target.numel() > _MOST_NUMBERS:
        return
    length = _lengths(factors.left)[:, None]
    left, right = factors.left / length, factors.right * length
    columns = atom_columns(program.operator, left, factors.gate)
    outputs = columns.flatten(1)
    outputs = outputs / _lengths(outputs).clamp_min(1e-300)[:, None]
    order = torch.argsort(_lengths(right), descending=True)
    cosine = (outputs @ outputs.T)[order][:, order]
    for close in _CLOSE:
        largest = (cosine >= 1 - close).to(torch.int8).argmax(1)  # the first of those close by
        heads, place = torch.unique(largest, return_inverse=True)
        chosen = order[heads]
        start = torch.zeros(len(heads), q, dtype=right.dtype).index_add_(0, place, right[order])
        v = best_second_layers(program.loss, program.beta, columns[chosen], start).v
        size = _lengths(v)
        keep = size > _GONE * size.max()
        root = size[keep].sqrt()[:, None]
        yield Factors(left[chosen][keep] * root, v[keep] / root, factors.gate[chosen][keep])


def _lengths(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=1)
