"""Escape: from any stationary point that is not optimal there is a neuron to add (maths: BM Thm 3.4 turned around)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from provenet.polar import is_large, products_of, top_pairs
from provenet.problem import Program
from provenet.solvers.neurons.place import Place, place
from provenet.variable import ByGate, Factors

_SLACK = 1e-12  # a polar this close to β is no violation
_BISECTIONS = 60
_DOUBLINGS = 20  # of an amplitude, twice each
_WIDTH = 16  # of the block Krylov space in which a large gate's pairs are sought;
_DEPTHS = (4, 16)  # deeper where a shallow one finds none


def escape(program: Program, at: Place, most: int) -> Place | None:
    """``at`` with up to ``most`` neurons more, and a smaller objective; None where no gate offers one.

    A gate with σ_k = γ°(G_k) > β offers the singular pairs (u, v) of −G_k above β: the neuron ε(u, v) changes the
    objective by −ε²(σ − β) + O(ε⁴).  The most violated gates get theirs together, ε² = t(σ − β), with t from a line
    search on an objective that is convex in t; where few gates are violated each gets several.  In a gate that has
    neurons, G_k is looked at off their directions, where stationarity says nothing: what they span is theirs to mend.
    """
    for depth in _DEPTHS:
        sigma, left, right, gate = _pairs(program, at, most, depth)
        wanted = torch.nonzero(sigma > program.beta * (1 + _SLACK)).flatten()
        if wanted.numel() or not is_large(program.operator):
            break
    if wanted.numel() == 0:
        return None
    wanted = wanted[torch.argsort(sigma[wanted], descending=True)]
    rank = ByGate(gate[wanted]).slot
    wanted = wanted[rank < math.ceil(most / int(rank.eq(0).sum()))][:most]
    size = (sigma[wanted] - program.beta).sqrt()[:, None]
    atoms = Factors(-left[wanted] * size, right[wanted] * size, gate[wanted])
    change = program.operator.forward_factors(atoms)
    amplitude = line_search(program, at.prediction, change, float(atoms.penalty()))
    moved = place(program, Factors.join(at.factors, atoms.scaled(amplitude**0.5)))
    return moved if moved.value < at.value else None


def _pairs(program: Program, at: Place, most: int, depth: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Singular triples σ (m,), u (m, p), v (m, q) of (I − P_U)G_k(I − P_V), and the gate of each, the top ones of every
    gate; P_U, P_V project on what the gate's neurons span.  depth: of the Krylov space where G_k is not formed."""
    op, theta = program.operator, program.loss.gradient(at.prediction)
    beyond = _Beyond(at.factors)
    if not is_large(op):
        slope = op.adjoint(theta)
        gates = torch.nonzero(program.gauge.polar(slope).upper > program.beta).flatten()
        names = gates.repeat_interleave(op.p)
        off = beyond.left(slope[gates].mT.flatten(0, 1), gates.repeat_interleave(op.q)).view(-1, op.q, op.p).mT
        off = beyond.right(off.flatten(0, 1), names).view(-1, op.p, op.q)
        U, sigma, Vh = torch.linalg.svd(off, full_matrices=False)
        U = U.mT
    else:
        plain = products_of(op, theta)

        def products(u: Tensor, v: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
            Gv, Gu = plain(beyond.left(u, gate), beyond.right(v, gate), gate)
            return beyond.left(Gv, gate), beyond.right(Gu, gate)

        gates = op.space.arange(op.n_gates)
        width = max(1, min(most // op.n_gates, _WIDTH))
        sigma, U, Vh = top_pairs(products, gates, op.p, op.q, width, depth)
    each = sigma.shape[1]
    return sigma.flatten(), U.flatten(0, 1), Vh.flatten(0, 1), gates.repeat_interleave(each)


class _Beyond:
    """Projections (I − P_U), (I − P_V) of rows, each by its gate."""

    def __init__(self, factors: Factors):
        self._groups = ByGate(factors.gate) if factors.n_neurons else None
        if self._groups is not None:
            self._left, self._right = (_basis(self._groups.gather(side)) for side in (factors.left, factors.right))

    def left(self, rows: Tensor, gate: Tensor) -> Tensor:
        return rows if self._groups is None else self._off(rows, gate, self._left)

    def right(self, rows: Tensor, gate: Tensor) -> Tensor:
        return rows if self._groups is None else self._off(rows, gate, self._right)

    def _off(self, rows: Tensor, gate: Tensor, basis: Tensor) -> Tensor:
        assert self._groups is not None
        rows = rows.clone()
        for k, own in zip(self._groups.names.tolist(), basis, strict=True):
            mine = torch.nonzero(gate == k).flatten()
            if mine.numel():
                some = rows[mine]
                rows[mine] = some - some @ own.T @ own
        return rows


def _basis(rows: Tensor) -> Tensor:
    """Orthonormal rows with the span of the rows (gates, width, p), zero where the rank is less than the width."""
    _, sigma, basis = torch.linalg.svd(rows, full_matrices=False)
    return basis * (sigma > 1e-12 * sigma[:, :1]).unsqueeze(2)


def line_search(program: Program, prediction: Tensor, change: Tensor, penalty: float) -> float:
    """argmin over t ≥ 0 of L(Ŷ + t·change) + β·t·penalty, by bisection on its increasing slope."""

    def rising(t: float) -> bool:
        slope = (program.loss.gradient(prediction + t * change) * change).sum()
        return float(slope) + program.beta * penalty >= 0

    low, high = 0.0, 1.0
    for _ in range(_DOUBLINGS):
        if rising(high):
            break
        low, high = high, 4 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rising(middle) else (middle, high)
        if high - low <= 1e-3 * high:
            break
    return 0.5 * (low + high)
