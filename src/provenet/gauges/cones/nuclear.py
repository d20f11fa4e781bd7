"""The cone-nuclear norm of ReLU blocks (BM eq. 3, 4; AT eq. 4, 5).

    ‖Z‖_{*,K} = min Σ_j ‖u_j‖‖v_j‖   over   Z = Σ_j u_j v_jᵀ,  K u_j ≥ 0

Its value is as hard as its polar, so solvers keep the factorisation, whose penalty is an upper bound of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.cones import Table, cone_pca
from provenet.cones.values import factorised, split
from provenet.gauges.base import NOTHING, Asked, BoundKind, Bounds, ConeGauge, Gauge, R_co
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.space import Space
from provenet.variable import Factors, Stack, factorise
from provenet.vectors import unit

_FEW = 8
_CHUNK = 64  # gates whose polar is tightened at a time
_KEEP_FACES = 20_000  # gates whose facets are found once and kept
_TOLERANCE = 1e-8  # bounds of the polar that close are not tightened further


@dataclass(frozen=True)
class ConeNuclear(ConeGauge[R_co]):
    """Where rows are too many to be written down for once, the spectral norm bounds the polar from above, or how narrow
    the cones are."""

    def relaxed(self, outputs: int) -> Gauge:
        """The cones are left out where how hard a neuron in its cone can pull is dear to know: with several outputs,
        but for the small cones of which polars are exact."""
        tables = self.region.tables
        return self if tables and all(table.exact(outputs) for _, table in tables) else NuclearNorm()

    def bounds(self, stack: Stack) -> Bounds:
        """lower ≤ ‖Z_k‖_{*,K} ≤ upper: neurons above, the polar below, or without a table the nuclear norm."""
        lower, factors = self._factorised(stack)
        upper = torch.zeros_like(lower).index_add_(0, factors.gate, factors.sizes())
        kind = BoundKind.EXACT if stack.shape[2] == 1 else BoundKind.DETERMINISTIC
        return Bounds(torch.minimum(lower, upper), upper, kind)

    def factorise(self, stack: Stack) -> Factors:
        """Neurons in their cones that add up to the stack, of the penalty ``bounds(stack).upper``."""
        return self._factorised(stack)[1]

    def _factorised(self, stack: Stack) -> tuple[Tensor, Factors]:
        lower = NuclearNorm().values(stack)
        parts = [Factors.empty(stack.shape[1], stack.shape[2], Space.of(stack))]
        alone = Space.of(stack).ones(len(stack), dtype=torch.bool)
        for gates, table in self.region.tables:
            below, neurons = (
                _with_one_output(table, stack[gates]) if stack.shape[2] == 1 else _each(table, stack[gates])
            )
            lower[gates] = below
            parts.append(Factors(neurons.left, neurons.right, gates[neurons.gate]))
            alone[gates] = False
        rest = torch.nonzero(alone).flatten()
        free = factorise(stack[rest], rest)
        parts.append(_signed(*self.region.split(free.left, free.gate), free.right, free.gate))
        return lower, Factors.join(*parts).balanced()

    def polar(self, stack: Stack, enough: float = 0.0) -> Bounds:
        """The gates with the largest spectral norms are tightened, until no other can be the largest."""
        # one output: the lower bounds of all are wanted, and cost nothing beside the upper ones
        return self._tightened(stack, enough, each=stack.shape[2] == 1)

    def largest(self, stack: Stack, asked: Asked = NOTHING) -> Bounds:
        return self._tightened(stack, 0.0, each=False, asked=asked)

    def _tightened(self, stack: Stack, enough: float, each: bool, asked: Asked = NOTHING) -> Bounds:
        """``each``: down to ``enough``, whatever the largest is."""
        rough = NuclearNorm().polar(stack).upper
        lower, upper = torch.zeros_like(rough), rough.clone()
        kind, peaks = BoundKind.DETERMINISTIC, self.region.inside.clone()
        if not self.region.tables:
            upper = torch.minimum(upper, self.region.bounded(stack))
        for gates, table in self.region.tables:
            found = (_ordered if table.exact(stack.shape[2]) else _together)(
                table, stack[gates], rough[gates], enough if each else max(enough, float(lower.max())), each, asked
            )
            lower[gates], upper[gates] = found.lower, found.upper
            kind = found.kind if len(gates) == len(stack) else _kind(lower, upper)
            if found.peaks is not None:
                peaks[gates] = found.peaks
        return Bounds(lower, upper, kind, peaks=peaks)

    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        u = self.region.peaks(stack)
        return u, unit(torch.bmm(stack.mT, u[:, :, None]).squeeze(2))


def _ordered(table: Table, stack: Stack, rough: Tensor, enough: float, each: bool, asked: Asked) -> Bounds:
    """Where bounds are exact: the largest spectral norms first, a few gates at a time."""
    if stack.shape[2] > 1 and len(table.signs) <= _KEEP_FACES:
        _ = table.faces  # kept for the next time
    lower, upper = torch.zeros_like(rough), rough.clone()
    order = torch.argsort(rough, descending=True)
    kind, largest = BoundKind.EXACT, enough
    for gates in order.split(_chunks(len(order))):
        if float(rough[gates[0]]) <= largest:
            break
        found = cone_pca(table.restrict(gates), stack[gates], enough if each else largest, tolerance=_TOLERANCE)
        lower[gates], upper[gates] = found.lower, torch.minimum(found.upper, rough[gates])
        largest = max(largest, float(found.lower.max()))
        if not bool((found.exact | (upper[gates] <= largest)).all()):
            kind = BoundKind.DETERMINISTIC
    return Bounds(lower, upper, kind)


def _together(table: Table, stack: Stack, rough: Tensor, enough: float, each: bool, asked: Asked) -> Bounds:
    """Where bounds are dear: what a local search finds in any gate says which gates need a good one."""
    enough = max(enough, asked.enough)
    gates = torch.nonzero(rough > enough).flatten()
    lower, upper = torch.zeros_like(rough), rough.clone()
    if gates.numel() == 0:
        return Bounds(lower, upper, BoundKind.DETERMINISTIC)
    some = table.restrict(gates)
    against, lost = asked.against, asked.lost
    found = cone_pca(some, stack[gates], enough, tolerance=_TOLERANCE, largest_only=True, against=against, lost=lost)
    lower[gates], upper[gates] = found.lower, torch.minimum(found.upper, rough[gates])
    peaks = table.inside.clone()
    peaks[gates] = found.u
    return Bounds(lower, upper, _kind(lower, upper), peaks=peaks)


def _kind(lower: Tensor, upper: Tensor) -> BoundKind:
    """Of the largest."""
    exact = float(upper.max()) <= float(lower.max()) * (1 + 10 * _TOLERANCE)
    return BoundKind.EXACT if exact else BoundKind.DETERMINISTIC


def _chunks(count: int) -> list[int]:
    """A few at first, for a bound that the others need not fall below; then as many as there were, up to `_CHUNK`."""
    sizes: list[int] = []
    for _ in range(count):
        sizes.append(min(count - sum(sizes), _CHUNK, max(_FEW, sum(sizes))))
        if sum(sizes) == count:
            break
    return sizes


def _with_one_output(table: Table, stack: Stack) -> tuple[Tensor, Factors]:
    lower, _, a, b = split(table, stack[:, :, 0])
    return lower, _signed(a, b, stack.new_ones(len(stack), 1), Space.of(stack).arange(len(stack)))


def _each(table: Table, stack: Stack) -> tuple[Tensor, Factors]:
    every = Space.of(stack).arange(len(stack))
    found = [factorised(table.restrict(k[None]), stack[k]) for k in every]
    parts = [Factors(one.u, one.v, k.expand(len(one.u))) for k, one in zip(every, found, strict=True)]
    return stack.new_tensor([one.lower for one in found]), Factors.join(*parts)


def _signed(a: Tensor, b: Tensor, right: Tensor, gate: Tensor) -> Factors:
    """a vᵀ − b vᵀ, neuron by neuron."""
    return Factors.join(Factors(a, right, gate), Factors(b, -right, gate))
