"""Fewer neurons that prove as much.

Interior points leave a dust of tiny neurons, and spread one neuron over all the cones that share its ray.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from provenet import deadline
from provenet.certificates import duality_gap
from provenet.gauges import ConeGauge
from provenet.problem import Program
from provenet.solvers.cones.newton import face_step
from provenet.solvers.needs import CONES
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.newton import NewtonSettings
from provenet.solvers.neurons.place import Place, place
from provenet.variable import Factors
from provenet.vectors import unit

_DUST = (1e-3, 1e-5, 1e-7)  # of the largest neuron
_CLOSE = (1e-3, 1e-5, 1e-7, 1e-9)  # 1 − cos of the angle at which two neurons' outputs count as one
_FEWER = 0.8  # of all neurons: what has to be left at most, for training them on to pay
_WORTH = 0.95  # of all neurons: what has to be left at most, where a proof is dear
_STEPS = 3  # of Newton on the faces
_SPARE = 1.0  # of the gap asked for: what the objective may rise by
_MOST_UNKNOWNS = 1500  # of neurons trained on
_MOST_NUMBERS = 2**25  # in the outputs of all neurons


def tidied(program: Program[Any], factors: Factors, tol: float) -> Factors:
    """The first of several selections with a gap of at most ``tol``; all neurons, where none has.

    Where a proof is dear it is not spent on a neuron or two."""
    cones = CONES.of(program)
    ways = (_without_dust, partial(_merged, program)) if cones else (_without_dust,)
    most = _WORTH if cones and not program.gauge.region.exact(program.operator.q) else 1.0
    for fewer_of in ways:
        for fewer in fewer_of(factors):
            if fewer.n_neurons < most * factors.n_neurons and _proves(program, fewer, factors, tol):
                factors = fewer
                break
            if deadline.over():
                break
    return factors


def _proves(program: Program, fewer: Factors, factors: Factors, tol: float) -> bool:
    """Whether fewer neurons have a gap of ``tol`` as well; no polar is spent where the objective says no."""
    before = float(program.objective_factors(factors))
    if not float(program.objective_factors(fewer)) <= before + _SPARE * tol * abs(before):
        return False
    prediction = program.operator.forward_factors(fewer)
    return duality_gap(program, prediction, float(program.gauge.penalty(fewer)), tol=tol).relative <= tol


def _without_dust(factors: Factors) -> Iterator[Factors]:
    size = factors.sizes()
    for share in _DUST:
        yield factors.select(size > share * size.max() if size.numel() else size > 0)


def _merged(program: Program[ConeGauge], factors: Factors) -> Iterator[Factors]:
    """ReLU neurons that do nearly the same, whatever their cones, as the largest of them, that says what they all said;
    what is left is trained on along the faces of its cones."""
    factors = factors.select(factors.sizes() > 0)
    N, q = factors.right.shape
    if N < 2 or N * q > _MOST_UNKNOWNS or N * q * program.loss.target.numel() > _MOST_NUMBERS:
        return
    factors = factors.select(torch.argsort(factors.sizes(), descending=True))
    outputs = program.operator.second_layer_columns(factors.left, factors.gate).flatten(1)
    size = torch.linalg.vector_norm(outputs, dim=1)
    cosine = unit(outputs) @ unit(outputs).T
    for close in _CLOSE:
        largest = (cosine >= 1 - close).to(torch.int8).argmax(1)  # the first of those close by
        heads = torch.unique(largest)
        if len(heads) > _FEWER * N:  # next to no two do the same, and the less so the closer they have to be
            return
        share = (size / size[largest].clamp_min(1e-300))[:, None]
        right = torch.zeros_like(factors.right).index_add_(0, largest, share * factors.right)
        said = Factors(factors.left, right, factors.gate).select(heads).balanced()
        yield _trained(program, best_amplitudes(program, place(program, said))).factors


def _trained(program: Program[ConeGauge], at: Place) -> Place:
    damping = 1.0
    for _ in range(_STEPS):
        if at.factors.n_neurons == 0 or deadline.over():
            break
        move = face_step(program, program.gauge.region, at, damping, NewtonSettings())
        at, damping = best_amplitudes(program, place(program, move.place.factors.balanced())), move.damping
        if move.stuck:
            break
    return at
