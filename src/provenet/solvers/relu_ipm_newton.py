"""The Newton system of the interior point: (Σ A_jᵀHA_j' + M_j δ_jj') du = rhs over the pairs of a working set.

H: the loss's curvature a sample.  M_j = C_j + Kᵀ diag(λ/s) K: of the norm's cone and of the rows.  Near the optimum M_j
stretches tight directions by many orders of magnitude.  So its root R_j comes from a QR of the heaviest rows themselves,
never squared, and the system is solved in the coordinates R_j u_j, where it is I plus a Gram matrix: the smaller of
BᵀHB (J·p) and H^½BBᵀH^½ (n), B = A R⁻¹.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg.blas import dsyrk, ssyrk
from torch import Tensor

from provenet.solvers.relu_ipm_caps import Scaling
from provenet.solvers.relu_ipm_pairs import Pairs, Table

_HEAVY = 2  # times p: rows whose weights are not squared
_JITTER = 1e-15  # of the trace of what the light rows add: what their Cholesky factor may lose
_LARGE = 3e9  # multiply-adds of the Gram matrix from which single precision is tried first
_REFINEMENTS = {torch.float64: 2, torch.float32: 10}  # at most
_REFINED = 1e-9  # of the residual, in the system's own norm
_ROUGH = 1e-5  # where single precision is left above this, double takes over


@dataclass(frozen=True)
class Newton:
    pairs: Pairs
    caps: Scaling
    weight: Tensor  # λ/s (J, N)
    curvature: Tensor  # H (n,)
    inverse: Tensor  # R⁻¹ (J, p, p)
    B: Tensor  # (J·p, n): R⁻ᵀAᵀH^½
    L: Tensor  # the upper Cholesky factor of I + BBᵀ or I + BᵀB

    @staticmethod
    def of(table: Table, pairs: Pairs, caps: Scaling, weight: Tensor, curvature: Tensor) -> Newton:
        inverse = _inverse_root(table, pairs, caps, weight)
        J, p, n = pairs.columns.shape
        if float(J * p) * n * min(J * p, n) > _LARGE:
            try:
                B, L = _gram(pairs, inverse, curvature, torch.float32)
                return Newton(pairs, caps, weight, curvature, inverse, B, L)
            except torch.linalg.LinAlgError:  # single precision is not enough
                pass
        return Newton(pairs, caps, weight, curvature, inverse, *_gram(pairs, inverse, curvature, torch.float64))

    @property
    def rough(self) -> bool:
        return self.B.dtype == torch.float32

    def in_double(self) -> Newton:
        B, L = _gram(self.pairs, self.inverse, self.curvature, torch.float64)
        return Newton(self.pairs, self.caps, self.weight, self.curvature, self.inverse, B, L)

    def solve(self, rhs: Tensor) -> tuple[Tensor, bool]:
        """du (J, p), by conjugate gradients from the factorisation; and whether it is good."""
        du, left = torch.zeros_like(rhs), rhs
        better = self._once(left)
        move, size = better, float((left * better).sum())
        first = size
        for _ in range(_REFINEMENTS[self.B.dtype]):
            if not size > _REFINED**2 * first:
                break
            pushed = self._times(move)
            step = size / float((move * pushed).sum())
            du, left = du + step * move, left - step * pushed
            better = self._once(left)
            last, size = size, float((left * better).sum())
            move = better + size / last * move
        return du, size <= _ROUGH**2 * first

    def _once(self, rhs: Tensor) -> Tensor:
        v = torch.bmm(self.inverse.mT, rhs[:, :, None]).reshape(-1, 1)
        size = float(v.abs().max()) or 1.0  # so that single precision neither over- nor underflows
        v = (v / size).to(self.B.dtype)
        if self.L.shape[0] == self.B.shape[0]:
            v = torch.cholesky_solve(v, self.L, upper=True)
        else:
            v = v - self.B @ torch.cholesky_solve(self.B.T @ v, self.L, upper=True)
        return torch.bmm(self.inverse, v.to(rhs.dtype).mul_(size).view(*rhs.shape, 1)).squeeze(2)

    def _times(self, du: Tensor) -> Tensor:
        pairs = self.pairs
        data = pairs.adjoint(self.curvature * pairs.forward(du))
        return data + self.caps.slopes(du)[1] + pairs.pushed(self.weight * pairs.slack(du))


def _gram(pairs: Pairs, inverse: Tensor, curvature: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """B, and the Cholesky factor of the smaller of I + BBᵀ and I + BᵀB."""
    B = torch.bmm(inverse.mT.to(dtype), pairs.columns.to(dtype)).mul_(curvature.sqrt().to(dtype))
    B = B.view(-1, len(curvature))
    by_sample = B.shape[1] < B.shape[0]
    # (n, J·p) in Fortran order; only a lower triangle is made, which read in C order is an upper one
    syrk = ssyrk if dtype == torch.float32 else dsyrk
    gram = syrk(1.0, B.numpy().T, trans=0 if by_sample else 1, lower=1)
    gram[np.diag_indices_from(gram)] += 1
    return B, torch.linalg.cholesky(torch.from_numpy(gram.T), upper=True)


def _inverse_root(table: Table, pairs: Pairs, caps: Scaling, weight: Tensor) -> Tensor:
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
