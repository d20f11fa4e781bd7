"""Neurons to add: the singular pairs of −A_k*Θ beyond β (maths: BM Thm 3.4 turned around)."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.gauges.spectral import leading_pairs, spectral_uppers
from provenet.polar import Pairs, is_dear, leading_by_products, products_of
from provenet.problem import Program
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, Spot
from provenet.variable import Factors, Stack
from provenet.vectors import unit

_A_GATE = 2  # at a time,
_OF_FEW = 64  # or so many of all gates together, where they are few
_ALIKE = 0.9  # the cosine from which on a neuron of the gate has this direction already
_DEPTH = 6  # of the Krylov space, where A* is not formed;
_FAR_DEPTH, _CLOSE_DEPTH, _CLOSE = 8, 14, 1.5  # of one vector's, where products are dear; so many β from which on close


class Leading:
    """What products show of the singular pairs where a state stands: found once, for a look asks before and after."""

    def __init__(self, pairs: Pairs | None = None, spot: Spot | None = None) -> None:
        self.pairs, self._spot = pairs, spot

    def at(self, program: Program, here: Coordinates, at: Spot) -> tuple[Tensor, Factors]:
        """Singular values σ (m,) of −A_k*Θ, no larger than the true ones but for rounding, and their unit neurons."""
        if self.pairs is None or not self.are_of(at):
            self.pairs, self._spot = _by_products(program, here, at, self.pairs), at
        sigma, left, right = self.pairs
        gate = here.operator.space.arange(len(sigma)).repeat_interleave(sigma.shape[1])
        atoms = Factors(-left.flatten(0, 1), right.flatten(0, 1), gate)
        return sigma.flatten(), atoms.to(here.operator.space)

    def are_of(self, at: Spot) -> bool:
        """Whether the pairs that were found last are of this spot."""
        return self._spot is at


def wanted(
    program: Program, here: Coordinates, at: Spot, pull: Stack | None, leading: Leading, beyond: float, most: int
) -> Factors:
    """Unit neurons (u, v) with −uᵀ(A_k*Θ)v > ``beyond``, the largest first, that no neuron is alike.

    pull (P, p, q): −A_k*Θ as the program has it, None where it is too large to be formed.
    """
    sigma, atoms = leading.at(program, here, at) if pull is None else _by_stack(here, pull, beyond)
    order = torch.argsort(sigma, descending=True)
    atoms = atoms.select(order[sigma[order] > beyond])
    return atoms.select(~_alike(atoms, at.factors)).select(slice(0, most))


def _by_stack(here: Coordinates, pull: Stack, beyond: float) -> tuple[Tensor, Factors]:
    gates = torch.nonzero(spectral_uppers(pull) > beyond).flatten()
    sigma, left, right = leading_pairs(pull[gates], max(_A_GATE, _OF_FEW // max(len(pull), 1)))
    atoms = Factors(left.flatten(0, 1), right.flatten(0, 1), gates.repeat_interleave(sigma.shape[1]))
    return sigma.flatten(), here.enter(atoms)


def _by_products(program: Program, here: Coordinates, at: Spot, near: Pairs | None) -> Pairs:
    op = here.operator
    theta = program.loss.gradient(at.prediction).to(here.dtype)
    gates = op.space.arange(op.n_gates)
    width = min(_A_GATE if op.n_gates > 1 else 4 * _A_GATE, op.p, op.q)
    if is_dear(op):
        close = near is not None and float(near[0].max()) < _CLOSE * program.beta
        width, depth = 1, _CLOSE_DEPTH if close else _FAR_DEPTH
    else:
        depth = _DEPTH
    return leading_by_products(products_of(op, theta), gates, op.p, op.q, width, depth, near)


def _alike(atoms: Factors, neurons: Factors) -> Tensor:
    """Which of them have a neuron of their gate that points almost where they do, (m,)."""
    if atoms.n_neurons == 0 or neurons.n_neurons == 0:
        return torch.zeros(atoms.n_neurons, dtype=torch.bool)
    cosine = (atoms.left @ unit(neurons.left).T) * (atoms.right @ unit(neurons.right).T)
    return ((cosine > _ALIKE) & (atoms.gate[:, None] == neurons.gate)).any(1)
