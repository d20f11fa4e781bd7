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
from scipy.linalg.blas import dsyrk
from torch import Tensor

from provenet.solvers.relu_ipm_caps import Scaling
from provenet.solvers.relu_ipm_pairs import Pairs, Table

_HEAVY = 2  # times p: rows whose weights are not squared
_REFINEMENTS = 1
_JITTER = 1e-15  # of the trace of what the light rows add: what their Cholesky factor may lose


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
        B = torch.bmm(inverse.mT, pairs.columns).mul_(curvature.sqrt()).view(-1, len(curvature))
        by_sample = B.shape[1] < B.shape[0]
        # (n, J·p) in Fortran order; only a lower triangle is made, which read in C order is an upper one
        gram = dsyrk(1.0, B.numpy().T, trans=0 if by_sample else 1, lower=1)
        gram[np.diag_indices_from(gram)] += 1
        L = torch.linalg.cholesky(torch.from_numpy(gram.T), upper=True)
        return Newton(pairs, caps, weight, curvature, inverse, B, L)

    def solve(self, rhs: Tensor) -> Tensor:
        """du (J, p); what the factorisation loses is refined."""
        du = self._once(rhs)
        for _ in range(_REFINEMENTS):
            du = du + self._once(rhs - self._times(du))
        return du

    def _once(self, rhs: Tensor) -> Tensor:
        v = torch.bmm(self.inverse.mT, rhs[:, :, None]).reshape(-1, 1)
        if self.L.shape[0] == self.B.shape[0]:
            v = torch.cholesky_solve(v, self.L, upper=True)
        else:
            v = v - self.B @ torch.cholesky_solve(self.B.T @ v, self.L, upper=True)
        return torch.bmm(self.inverse, v.view(*rhs.shape, 1)).squeeze(2)

    def _times(self, du: Tensor) -> Tensor:
        pairs = self.pairs
        data = pairs.adjoint(self.curvature * pairs.forward(du))
        return data + self.caps.slopes(du)[1] + pairs.pushed(self.weight * pairs.slack(du))


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
