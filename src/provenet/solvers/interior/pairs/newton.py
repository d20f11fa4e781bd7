"""The Newton system of the interior point: (Σ A_jᵀHA_j' + M_j δ_jj') du = rhs over the pairs of a working set.

H: the loss's curvature a sample; with a free intercept H − H1(1ᵀH1)⁻¹1ᵀH.  M_j = C_j + Kᵀ diag(λ/s) K: of the norm's
cone and of the rows.  Near the optimum M_j stretches tight directions by many orders of magnitude.  So its root R_j
comes from a QR of the heaviest rows, never squared.  Two ways lead on, by whichever side is smaller:

    samples    I + H^½ Σ_k A_k T_k A_kᵀ H^½,  T_k the sum of M_j⁻¹ over the signs of a gate;   n × n
    unknowns   I + R⁻ᵀ AᵀHA R⁻¹;                                                              J·p × J·p
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg.blas import dsyrk, ssyrk
from torch import Tensor

from provenet.solvers.interior.pairs.caps import Scaling
from provenet.solvers.interior.pairs.pairs import DistinctRows, Pairs

_HEAVY = 2  # times p: rows whose weights are not squared
_JITTER = 1e-15  # of the trace of what the light rows add: what their Cholesky factor may lose
_LARGE = 3e9  # multiply-adds of the Gram matrix from which single precision is tried first
_REFINEMENTS = {torch.float64: 2, torch.float32: 10}  # at most
_REFINED = 1e-7  # of the residual, in the system's own norm
_ROUGH = 1e-6  # where single precision is left above this, double takes over


@dataclass(frozen=True)
class Newton:
    pairs: Pairs
    caps: Scaling
    weight: Tensor  # λ/s (J, N)
    curvature: Tensor  # H (n,)
    inverse: Tensor  # R⁻¹ (J, p, p)
    L: Tensor  # the upper Cholesky factor
    free: Tensor | None = None  # H^½1 of a free intercept, of unit length for each output, (n, c)

    @staticmethod
    def of(
        table: DistinctRows, pairs: Pairs, caps: Scaling, weight: Tensor, curvature: Tensor, rough: bool, free: int = 0
    ) -> Newton:
        """``rough``: where the system is large, single precision may do.  free: outputs with a free intercept."""
        across = _across(curvature, free) if free else None
        inverse = _inverse_root(table, pairs, caps, weight)
        n, unknowns = len(curvature), weight.shape[0] * pairs.rows.shape[1]
        if rough and float(unknowns) * n * min(unknowns, n) > _LARGE:
            try:
                L = _factorised(pairs, inverse, curvature, torch.float32, across)
                return Newton(pairs, caps, weight, curvature, inverse, L, across)
            except torch.linalg.LinAlgError:  # single precision is not enough
                pass
        L = _factorised(pairs, inverse, curvature, torch.float64, across)
        return Newton(pairs, caps, weight, curvature, inverse, L, across)

    @property
    def rough(self) -> bool:
        return self.L.dtype == torch.float32

    def in_double(self) -> Newton:
        return replace(self, L=_factorised(self.pairs, self.inverse, self.curvature, torch.float64, self.free))

    def solve(self, rhs: Tensor) -> tuple[Tensor, bool]:
        """du (J, p), by conjugate gradients from the factorisation; and whether it is good."""
        du, left = torch.zeros_like(rhs), rhs
        better = self.roughly(left)
        move, size = better, float((left * better).sum())
        first = size
        for _ in range(_REFINEMENTS[self.L.dtype]):
            if not size > _REFINED**2 * first:
                break
            pushed = self._times(move)
            step = size / float((move * pushed).sum())
            du, left = du + step * move, left - step * pushed
            better = self.roughly(left)
            last, size = size, float((left * better).sum())
            move = better + size / last * move
        return du, 0 <= size <= _ROUGH**2 * first

    def roughly(self, rhs: Tensor) -> Tensor:
        """What the factorisation alone gives."""
        v = torch.bmm(self.inverse.mT, rhs[:, :, None])
        if self.L.shape[0] == rhs.numel():
            return torch.bmm(self.inverse, self._back(v.reshape(-1, 1)).view(v.shape)).squeeze(2)
        root = self.curvature.sqrt()
        du = torch.bmm(self.inverse, v).squeeze(2)  # M⁻¹ rhs
        inner = self._back(_without(self.free, root * self.pairs.forward(du))[:, None])[:, 0]
        pull = self.pairs.adjoint(root * inner)[:, :, None]
        return du - torch.bmm(self.inverse, torch.bmm(self.inverse.mT, pull)).squeeze(2)

    def _back(self, v: Tensor) -> Tensor:
        size = float(v.abs().max()) or 1.0  # so that single precision neither over- nor underflows
        return torch.cholesky_solve((v / size).to(self.L.dtype), self.L, upper=True).to(v.dtype).mul_(size)

    def _times(self, du: Tensor) -> Tensor:
        pairs = self.pairs
        bent = self.curvature * pairs.forward(du)
        if self.free is not None:
            root = self.curvature.sqrt()
            bent = bent - root * (self.free @ (self.free.T @ (root * pairs.forward(du))))
        data = pairs.adjoint(bent)
        return data + self.caps.slopes(du)[1] + pairs.pushed(self.weight * pairs.slack(du))


def _across(curvature: Tensor, outputs: int) -> Tensor:
    """H^½1 for each output, of unit length, (n, c), for curvatures of all outputs, sample by sample."""
    n = len(curvature)
    columns = torch.zeros(n, outputs, dtype=curvature.dtype)
    columns[torch.arange(n), torch.arange(n) % outputs] = curvature.sqrt()
    return columns / torch.linalg.vector_norm(columns, dim=0)


def _without(free: Tensor | None, values: Tensor) -> Tensor:
    """Values (…, n) without their part along a free intercept."""
    return values if free is None else values - (values @ free) @ free.T


def _factorised(
    pairs: Pairs, inverse: Tensor, curvature: Tensor, dtype: torch.dtype, free: Tensor | None = None
) -> Tensor:
    """The Cholesky factor of I + a Gram matrix, on the smaller side."""
    J, p, _ = inverse.shape
    by_sample = len(curvature) < J * p
    if by_sample:
        B = pairs.mapped(_joint_root(inverse, pairs.place), torch.arange(pairs.operator.n_gates), dtype)
    else:
        B = pairs.mapped(inverse.mT * pairs.sign[:, None, None], pairs.place, dtype)
    B.mul_(curvature.sqrt().to(dtype))
    if free is not None:
        B = _without(free.to(dtype), B)
    # (n, ·) in Fortran order; only a lower triangle is made, which read in C order is an upper one
    syrk = ssyrk if dtype == torch.float32 else dsyrk
    gram = syrk(1.0, B.numpy().T, trans=0 if by_sample else 1, lower=1)
    gram[np.diag_indices_from(gram)] += 1
    return torch.linalg.cholesky(torch.from_numpy(gram.T), upper=True)


def _joint_root(inverse: Tensor, place: Tensor) -> Tensor:
    """T_k with T_kᵀT_k = Σ M_j⁻¹ over the pairs of each gate, one or two: (gates, p, p)."""
    order = torch.argsort(place, stable=True)
    first = torch.ones(len(place), dtype=torch.bool)
    first[1:] = place[order[1:]] != place[order[:-1]]
    root = inverse[order[first]].mT.contiguous()
    second = order[~first]
    if len(second):
        gates = place[second]
        root[gates] = torch.linalg.qr(torch.cat([root[gates], inverse[second].mT], dim=1), mode="r").R
    return root


def _inverse_root(table: DistinctRows, pairs: Pairs, caps: Scaling, weight: Tensor) -> Tensor:
    """R⁻¹ with RᵀR = M, upper triangular (J, p, p)."""
    N, p = pairs.rows.shape
    eye = torch.eye(p, dtype=weight.dtype)
    parts = [caps.root()]
    if N:
        heavy, which = torch.topk(weight, min(_HEAVY * p, N), dim=1)
        parts.insert(0, pairs.rows[which] * heavy.sqrt()[:, :, None])
        if heavy.shape[1] < N:
            light = table.weighted(weight.scatter(1, which, 0.0))
            trace = light.diagonal(dim1=1, dim2=2).sum(1)
            light += (_JITTER * trace)[:, None, None] * eye
            parts.append(torch.linalg.cholesky(light, upper=True))
    R = torch.linalg.qr(torch.cat(parts, dim=1), mode="r").R
    return torch.linalg.solve_triangular(R, eye.expand_as(R), upper=True)
