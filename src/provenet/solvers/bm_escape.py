"""Escape: from any stationary point that is not optimal there is a neuron to add (maths: BM Thm 3.4 turned around)."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.bm_factors import Groups, Place, place
from provenet.variable import Factors, Stack

_SLACK = 1e-12  # a polar this close to β is no violation
_BISECTIONS = 60


def escape(program: Program, at: Place, most: int) -> Place | None:
    """``at`` with up to ``most`` neurons more, and a smaller objective; None where no gate offers one.

    A gate with σ_k = γ°(G_k) > β offers the atom (u, v) of −G_k: the neuron ε(u, v) changes the objective by
    −ε²(σ_k − β) + O(ε⁴).  The most violated gates get theirs together, ε_k² = t(σ_k − β), with t from a line search on
    an objective that is convex in t.  In a gate that has neurons, G_k is looked at off their directions, where
    stationarity says nothing: what they span is theirs to mend.
    """
    op = program.operator
    slope = _beyond(at.factors, op.adjoint(program.loss.gradient(at.prediction)))
    polar = program.gauge.polar(slope).lower
    open_gates = torch.nonzero(polar > program.beta * (1 + _SLACK)).flatten()
    if open_gates.numel() == 0:
        return None
    gates = open_gates[torch.argsort(polar[open_gates], descending=True)[:most]]
    u, v = program.gauge.atom(-slope[gates])
    size = (polar[gates] - program.beta).sqrt()[:, None]
    atoms = Factors(u * size, v * size, gates)
    amplitude = line_search(program, at.prediction, op.forward_factors(atoms), float(atoms.penalty()))
    moved = place(program, Factors.join(at.factors, atoms.scaled(amplitude**0.5)))
    return moved if moved.value < at.value else None


def _beyond(factors: Factors, slope: Stack) -> Stack:
    """(I − P_U)G_k(I − P_V), with P_U, P_V the projections on what the gate's neurons span."""
    if factors.n_neurons == 0:
        return slope
    groups = Groups(factors.gate)
    own = slope[groups.names]
    own = own - _projected(groups.gather(factors.left), own)
    own = own - _projected(groups.gather(factors.right), own.transpose(1, 2)).transpose(1, 2)
    slope = slope.clone()
    slope[groups.names] = own
    return slope


def _projected(rows: Tensor, blocks: Tensor) -> Tensor:
    """P·block, P the projection on the span of the rows (gates, width, p), for blocks (gates, p, q)."""
    _, sigma, basis = torch.linalg.svd(rows, full_matrices=False)
    basis = basis * (sigma > 1e-12 * sigma[:, :1]).unsqueeze(2)
    return basis.transpose(1, 2) @ (basis @ blocks)


def line_search(program: Program, prediction: Tensor, change: Tensor, penalty: float) -> float:
    """argmin over t ≥ 0 of L(Ŷ + t·change) + β·t·penalty, by bisection on its increasing slope."""

    def rising(t: float) -> bool:
        slope = (program.loss.gradient(prediction + t * change) * change).sum()
        return float(slope) + program.beta * penalty >= 0

    low, high = 0.0, 1.0
    while not rising(high) and high < 1e12:
        low, high = high, 4 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rising(middle) else (middle, high)
        if high - low <= 1e-3 * high:
            break
    return 0.5 * (low + high)
