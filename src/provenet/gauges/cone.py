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

from provenet.cones import ConePCA, Cones, ImplicitCones, cone_pca
from provenet.gauges.base import Bounds, Gauge
from provenet.gauges.nuclear import NuclearNorm
from provenet.variable import Factors, Stack

_CHUNK = 64  # gates whose polar is tightened at a time


@dataclass(frozen=True)
class ConeNuclear(Gauge):
    """``cones`` None: there is no table of rows, and the spectral norm bounds the polar from above; ``implicit`` are
    then the cones, applied through the block."""

    cones: Cones | None
    implicit: ImplicitCones | None = None

    has_prox = False

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

    def values(self, stack: Stack) -> Tensor:
        raise NotImplementedError("the cone-nuclear norm of a matrix is as hard as training; use its factors' penalty.")

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        raise NotImplementedError("the cone-nuclear norm has no prox.")

    def polar(self, stack: Stack) -> Bounds:
        """The gates with the largest spectral norms are tightened, until no other can be the largest."""
        rough = NuclearNorm().polar(stack)
        if self.cones is None:
            return Bounds(torch.zeros_like(rough.lower), rough.upper, "deterministic")
        lower, upper = torch.zeros_like(rough.lower), rough.upper.clone()
        order = torch.argsort(rough.upper, descending=True)
        kind, largest = "exact", 0.0
        for gates in order.split(_CHUNK):
            if float(rough.upper[gates[0]]) <= largest:
                break
            found = self.pca(stack, gates)
            lower[gates], upper[gates] = found.lower, torch.minimum(found.upper, rough.upper[gates])
            largest = max(largest, float(upper[gates].max()))
            if not bool(found.exact.all()):
                kind = "deterministic"
        return Bounds(lower, upper, kind)

    def pca(self, stack: Stack, gates: Tensor) -> ConePCA:
        """Cone-constrained PCA of some gates' blocks, stack (P, p, q) of all."""
        assert self.cones is not None
        return cone_pca(self.cones.restrict(gates), stack[gates])

    def atom(self, stack: Stack) -> tuple[Tensor, Tensor]:
        if self.cones is None:
            raise ValueError("ConeNuclear.atom: this block has no table of rows.")
        found = self.pca(stack, torch.arange(stack.shape[0]))
        pull = torch.bmm(stack.mT, found.u[:, :, None]).squeeze(2)
        return found.u, pull / torch.linalg.vector_norm(pull, dim=1, keepdim=True).clamp_min(1e-300)

    def factorise(self, stack: Stack) -> Factors:
        raise NotImplementedError("a stack does not say which of its factorisations keep Ku ≥ 0.")
