"""The cone-nuclear norm of ReLU blocks (BM eq. 3, 4; AT eq. 4, 5).

    ‖Z‖_{*,K} = min Σ_j ‖u_j‖‖v_j‖   over   Z = Σ_j u_j v_jᵀ,  K u_j ≥ 0

Its value is as hard as its polar, so solvers keep the factorisation, whose penalty is an upper bound of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from provenet import deadline
from provenet.cones import ConePCA, Cones, ImplicitCones, cone_pca
from provenet.cones.search import climb
from provenet.cones.values import factorised, split
from provenet.gauges.base import BoundKind, Bounds, Gauge
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.space import Space
from provenet.variable import Factors, Stack

_FEW = 8
_CHUNK = 64  # gates whose polar is tightened at a time
_KEEP_FACES = 20_000  # gates whose facets are found once and kept
_SEARCH_SHARE = 0.3  # of the time left, for neurons to add
_TOLERANCE = 1e-8  # bounds of the polar that close are not tightened further


@dataclass(frozen=True)
class ConeNuclear(Gauge):
    """``cones`` None: there is no table of rows; ``implicit`` are then the cones, applied through the block, and where
    their rows are too many to be written down for once the spectral norm bounds the polar from above."""

    cones: Cones | None
    implicit: ImplicitCones | None = None

    has_prox = False
    rotates = False

    def restrict(self, gates: Tensor) -> ConeNuclear:
        return self._mapped(lambda cones: cones.restrict(gates))

    def within(self, basis: Tensor) -> ConeNuclear:
        return self._mapped(lambda cones: cones.within(basis))

    def _mapped(self, change: Callable[[Any], Any]) -> ConeNuclear:
        return replace(
            self,
            cones=None if self.cones is None else change(self.cones),
            implicit=None if self.implicit is None else change(self.implicit),
        )

    @property
    def region(self) -> Cones | ImplicitCones | None:
        """Where neurons may be, as a table or through the block."""
        return self.implicit if self.cones is None else self.cones

    def rounding(self, p: int, q: int) -> float:
        return 1.0 if self.cones is None else 1.0 + self.cones.doubt

    def values(self, stack: Stack) -> Tensor:
        """For one output; the `bounds` are then one number."""
        if stack.shape[2] > 1:
            raise NotImplementedError(
                "the cone-nuclear norm of a matrix is as hard as training: take `bounds`, or its factors' penalty."
            )
        return self.bounds(stack).upper

    def bounds(self, stack: Stack) -> Bounds:
        """lower ≤ ‖Z_k‖_{*,K} ≤ upper: factorisations above, the polar below."""
        cones = self._rows("bounds")
        if stack.shape[2] == 1:
            lower, upper, _, _ = split(cones, stack[:, :, 0])
            return Bounds(lower, upper)
        every = torch.arange(len(stack), device=stack.device)
        found = [factorised(cones.restrict(k[None]), stack[k]) for k in every]
        lower = stack.new_tensor([part.lower for part in found])
        upper = stack.new_tensor([part.upper for part in found])
        return Bounds(lower, upper, BoundKind.DETERMINISTIC)

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        raise NotImplementedError("the cone-nuclear norm has no prox.")

    def polar(self, stack: Stack, enough: float = 0.0) -> Bounds:
        """The gates with the largest spectral norms are tightened, until no other can be the largest.

        enough: upper bounds no larger than this are not tightened.
        """
        # one output: the lower bounds of all are wanted, and cost nothing beside the upper ones
        return self._tightened(stack, enough, each=stack.shape[2] == 1)

    def largest(self, stack: Stack, against: float = torch.inf) -> Bounds:
        return self._tightened(stack, 0.0, each=False, against=against)

    def _tightened(self, stack: Stack, enough: float, each: bool, against: float = torch.inf) -> Bounds:
        """``each``: down to ``enough``, whatever the largest is."""
        rough = NuclearNorm().polar(stack)
        if self.cones is None:
            return self._by_implicit(stack, rough, enough, against)
        if stack.shape[2] > 1 and stack.shape[1] > 3:
            return _largest(self.cones, stack, rough, enough, against)
        lower, upper = torch.zeros_like(rough.lower), rough.upper.clone()
        order = torch.argsort(rough.upper, descending=True)
        kind, largest = BoundKind.EXACT, enough
        for gates in order.split(_chunks(len(order))):
            if float(rough.upper[gates[0]]) <= largest:
                break
            found = self.pca(stack, gates, enough if each else largest)
            lower[gates], upper[gates] = found.lower, torch.minimum(found.upper, rough.upper[gates])
            largest = max(largest, float(found.lower.max()))
            if not bool((found.exact | (upper[gates] <= largest)).all()):
                kind = BoundKind.DETERMINISTIC
        return Bounds(lower, upper, kind)

    def _by_implicit(self, stack: Stack, rough: Bounds, enough: float, against: float) -> Bounds:
        """Of cones applied through the block: as for tables, where their rows can be written down for once."""
        lower, upper = torch.zeros_like(rough.lower), rough.upper.clone()
        for gates, table in [] if self.implicit is None else self.implicit.tables:
            some = Bounds(rough.lower[gates], rough.upper[gates])
            found = _largest(table, stack[gates], some, max(enough, float(lower.max())), against)
            lower[gates], upper[gates] = found.lower, found.upper
        return Bounds(lower, upper, _kind(lower, upper))

    def violated(self, stack: Stack, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
        """(gates, u, v): where some unit u of the cone has ‖G_kᵀu‖ > threshold, the best u found, and v = G_kᵀu/‖·‖.

        The most violated come first.
        """
        rough = NuclearNorm().polar(stack).upper
        candidates = torch.argsort(rough, descending=True)[: int((rough > threshold).sum())]
        with deadline.within(_SEARCH_SHARE * deadline.left()):  # what is found must still be put to use
            u, v = self.restrict(candidates).atom(stack[candidates])
        value = torch.einsum("kp,kpq,kq->k", u, stack[candidates], v)
        order = torch.argsort(value, descending=True)
        order = order[value[order] > threshold]
        return candidates[order], u[order], v[order]

    def pca(self, stack: Stack, gates: Tensor, enough: float = 0.0) -> ConePCA:
        """Cone-constrained PCA of some gates' blocks, stack (P, p, q) of all."""
        assert self.cones is not None
        if stack.shape[2] > 1 and stack.shape[1] <= 3 and len(self.cones.signs) <= _KEEP_FACES:
            _ = self.cones.faces  # kept for the next time
        return cone_pca(self.cones.restrict(gates), stack[gates], enough, tolerance=_TOLERANCE)

    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        if self.cones is None and self.implicit is not None:
            u = climb(self.implicit, stack).u
        else:
            u = cone_pca(self._rows("atom"), stack, enough=torch.inf).u  # the point is wanted, not a bound
        pull = torch.bmm(stack.mT, u[:, :, None]).squeeze(2)
        return u, pull / torch.linalg.vector_norm(pull, dim=1, keepdim=True).clamp_min(1e-300)

    def factorise(self, stack: Stack) -> Factors:
        """Neurons in their cones that add up to the stack, of the penalty ``bounds(stack).upper``, up to rounding."""
        cones = self._rows("factorise")
        parts = [Factors.empty(stack.shape[1], stack.shape[2], Space.of(stack))]
        for k in torch.arange(len(stack), device=stack.device):
            _, _, u, v = factorised(cones.restrict(k[None]), stack[k])
            root = torch.linalg.vector_norm(v, dim=1, keepdim=True).sqrt()
            parts.append(Factors(u * root, v / root.clamp_min(1e-300), k.expand(len(u))))
        joined = Factors.join(*parts)
        return joined.select(torch.linalg.vector_norm(joined.left, dim=1) > 0)

    def _rows(self, asked: str) -> Cones:
        if self.cones is None:
            raise ValueError(f"ConeNuclear.{asked}: this block has no table of rows.")
        return self.cones


def _largest(cones: Cones, stack: Stack, rough: Bounds, enough: float, against: float) -> Bounds:
    """Where bounds are dear: what a local search finds in any gate says which gates need a good one."""
    gates = torch.nonzero(rough.upper > enough).flatten()
    if gates.numel() == 0:
        return Bounds(torch.zeros_like(rough.lower), rough.upper, BoundKind.DETERMINISTIC)
    some = cones.restrict(gates)
    found = cone_pca(some, stack[gates], enough, tolerance=_TOLERANCE, largest_only=True, against=against)
    lower, upper = torch.zeros_like(rough.lower), rough.upper.clone()
    lower[gates], upper[gates] = found.lower, torch.minimum(found.upper, rough.upper[gates])
    return Bounds(lower, upper, _kind(lower, upper))


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
