"""What a run has that was cut short before its first step: the neurons that pull hardest at zero, of the best size."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import Gap
from provenet.gauges.spectral import leading_pairs, spectral_uppers
from provenet.problem import Program
from provenet.solvers.needs import CONES, NUCLEAR, RESIDENT
from provenet.solvers.neurons.escape import line_search
from provenet.solvers.neurons.place import place
from provenet.variable import Factors, Stack
from provenet.vectors import unit

_MOST = 8


def first_neurons(program: Program, at_zero: Gap) -> Factors:
    """Of the pull −A*∇L(0) that a look at zero has made; none where it made none, or nothing pulls harder than β.

    A neuron (u, v) of unit layers and size t changes the objective by t(β − uᵀ(−A*∇L)v) + O(t²)."""
    pull, most = at_zero.pull, int(min(_MOST, deadline.neurons()))
    if pull is None or not RESIDENT.of(program):
        return program.nobody
    if NUCLEAR.of(program):
        sigma, atoms = _of_all(pull, most)
    elif CONES.of(program):
        inside = program.gauge.region.inside if at_zero.peaks is None else at_zero.peaks  # type: ignore[attr-defined]
        sigma, atoms = _behind(unit(inside), pull, most)
    else:
        return program.nobody
    wanted = sigma > program.beta
    size = (sigma[wanted] - program.beta).sqrt()[:, None]
    atoms = atoms.select(torch.nonzero(wanted).flatten())
    found = Factors(atoms.left * size, atoms.right * size, atoms.gate)
    if found.n_neurons == 0:
        return program.nobody
    nothing = torch.zeros_like(program.loss.target)
    amplitude = line_search(program, nothing, program.operator.forward_factors(found), float(found.penalty()))
    there = place(program, found.scaled(amplitude**0.5))
    return there.factors if there.value < float(program.loss.value(nothing)) else program.nobody


def _of_all(pull: Stack, most: int) -> tuple[Tensor, Factors]:
    """The leading pairs of the gates that may pull hardest, and how hard they do."""
    gates = torch.topk(spectral_uppers(pull), min(most, len(pull))).indices
    sigma, left, right = leading_pairs(pull[gates], max(most // len(gates), 1))
    return sigma.flatten(), Factors(left.flatten(0, 1), right.flatten(0, 1), gates.repeat_interleave(sigma.shape[1]))


def _behind(u: Tensor, pull: Stack, most: int) -> tuple[Tensor, Factors]:
    """Neurons in these directions (P, p) of the cones."""
    v = torch.bmm(pull.mT, u[:, :, None]).squeeze(2)
    sigma = torch.linalg.vector_norm(v, dim=1)
    gates = torch.topk(sigma, min(most, len(u))).indices
    return sigma[gates], Factors(u[gates], unit(v[gates]), gates)
