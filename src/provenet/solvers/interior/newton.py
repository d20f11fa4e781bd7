"""One step of the interior point: a Mehrotra predictor–corrector in Nesterov–Todd coordinates, with a line search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from torch import Tensor

from provenet.solvers.interior.blocks import LinAlgError, Scaling, smallest_eigenvalue, to_blocks, to_vector
from provenet.solvers.interior.rows import Fit, Rows
from provenet.variable import Stack

BOUNDARY = 0.99  # share of the way to the boundary of the cone
_LAG = 0.1  # μ may fall no faster than this times the defect allows
DESCENT = 0.1  # share of the promised decrease that a step must keep
SHRINK = 0.3
TRIES = 7


@dataclass(frozen=True)
class Centre:
    """An iterate in its own coordinates, where T̃_k = R̃_k = Λ_k: rows X̃_k = M_k G_k."""

    scaling: Scaling
    rows: Rows
    L: Tensor  # the Cholesky factor of K
    W: Tensor  # K⁻¹ Y
    a: Stack  # X̃ᵀ W = Gᵀ A
    zeta: Stack  # Λ a

    @property
    def stack(self) -> Stack:
        """Z_k = T_k A_k = G_k ζ_k."""
        return times(self.scaling.G, self.zeta)

    def response(self, residual: Tensor) -> Stack:
        """T_k M_kᵀ K⁻¹ residual: the change of Z that a change of the target calls for."""
        pull = self.rows.adjoint(torch.cholesky_solve(residual, self.L))
        return times(self.scaling.G, self.scaling.lam[:, :, None] * pull)


def times(blocks: Tensor, stack: Stack) -> Stack:
    """Block times block; a block of one number multiplies its gate as a whole."""
    return blocks * stack if blocks.shape[1] == 1 else blocks @ stack


def outer(a: Stack, b: Stack, m: int) -> Tensor:
    """a_k b_kᵀ (P, m, m); in the right form the inner product."""
    return (a * b).sum(dim=(1, 2), keepdim=True) if m == 1 else a @ b.mT


def centre_at(fit: Fit, scaling: Scaling) -> Centre:
    """Solve for W and Z at T.  With c = Λ^½ a they are W = Y − X̃Λ^½ c and c = Λ^½ X̃ᵀ W.

    K is badly conditioned where β is small.  So c is corrected once, against the W that follows from c.
    """
    rows, target = fit.rows.scaled(scaling.G), fit.target
    K = rows.kernel(scaling.lam)
    K.diagonal().add_(1)
    L = torch.linalg.cholesky(K)
    half = scaling.lam.sqrt()[:, :, None]
    c = half * rows.adjoint(torch.cholesky_solve(target, L))
    W = target - rows.forward(half * c)
    error = c - half * rows.adjoint(W)
    dW = torch.cholesky_solve(rows.forward(half * error), L)
    W = W + dW
    c = c - error + half * rows.adjoint(dW)
    return Centre(scaling, rows, L, W, rows.adjoint(W), half * c)


def advance(fit: Fit, centre: Centre, beta: float) -> Centre:
    """The next iterate: the corrected step, or a shorter Newton step where the barrier function

        φ_ν(T) = φ(T) − ν/2 Σ log det T_k,   ν the complementarity aimed at,

    does not fall as promised.  φ_ν is convex and the plain Newton direction descends, so one is found.  Raises
    LinAlgError where rounding leaves no step.
    """
    lam = centre.scaling.lam
    m = lam.shape[1]
    trace_slope = beta**2 * centre.scaling.G.mT @ centre.scaling.G
    gradient = trace_slope - outer(centre.a, centre.a, m)  # 2∇φ
    value = float((fit.target * centre.W).sum())
    to_unit = centre.scaling.to_unit
    newton = _Newton(centre, gradient)
    (dT, dR), nu = newton.corrected()
    barrier_slope = gradient - torch.diag_embed(nu / lam)
    step = longest(to_unit, dT, dR)
    for attempt in range(TRIES):
        if attempt == 1:
            dT, dR = newton.direction(torch.diag_embed(nu / lam - lam), newton.defect)
            step = longest(to_unit, dT, dR)
        moved = centre_at(fit, centre.scaling.moved(step * dT, step * dR))
        promised = step * float((barrier_slope * dT).sum())
        log_det = float(torch.linalg.slogdet(torch.eye(m, dtype=lam.dtype) + step * to_unit * dT)[1].sum())
        change = float((fit.target * moved.W).sum()) - value + step * float((trace_slope * dT).sum()) - nu * log_det
        if change <= DESCENT * promised + 1e-12 * value:
            return moved
        step *= SHRINK
    raise LinAlgError("no step lowers the barrier function")


class _Newton:
    """dT + dR = rhs and dR = 2∇²φ dT + defect, in the centre's coordinates; one factorisation for all right sides."""

    def __init__(self, centre: Centre, gradient: Tensor):
        self.centre = centre
        lam = centre.scaling.lam
        self.defect = gradient - torch.diag_embed(lam)  # what R lacks to be 2∇φ
        m = lam.shape[1]
        self.L = torch.linalg.cholesky(newton_matrix(centre, np.eye(len(lam) * m * (m + 1) // 2, order="F")))

    def direction(self, rhs: Tensor, defect: Tensor) -> tuple[Tensor, Tensor]:
        dT = torch.cholesky_solve(to_vector(rhs - defect)[:, None], self.L)
        dT = to_blocks(dT[:, 0], rhs.shape[1])
        return dT, rhs - dT

    def corrected(self) -> tuple[tuple[Tensor, Tensor], float]:
        """Mehrotra's direction, and the complementarity ν = σμ it aims at."""
        lam = self.centre.scaling.lam
        Lam, mu = torch.diag_embed(lam), float(lam.square().mean())
        dT, dR = self.direction(-Lam, self.defect)
        step = longest(self.centre.scaling.to_unit, dT, dR)
        predicted = float(((Lam + step * dT) * (Lam + step * dR)).sum()) / lam.numel()
        nu = aimed_at(mu, predicted, lam, self.defect)
        return self.direction(corrector(nu, lam, dT, dR), self.defect + curvature(self.centre, dT)), nu


def aimed_at(mu: float, predicted: float, lam: Tensor, defect: Tensor) -> float:
    """The complementarity for a step to aim at, where the predictor leaves ``predicted`` of μ."""
    # where R is far from 2∇φ, a small μ would only pin T to the boundary
    floor = _LAG * float((defect.diagonal(dim1=1, dim2=2) * lam).abs().mean()) / mu
    return mu * max((predicted / mu) ** 3, min(0.5, floor))


def corrector(nu: float, lam: Tensor, dT: Tensor, dR: Tensor) -> Tensor:
    """dT + dR that makes the complementarity ν, the predictor's own product included."""
    product = dT @ dR
    aim = torch.diag_embed(nu - lam.square()) - 0.5 * (product + product.mT)
    return aim * 2 / (lam[:, :, None] + lam[:, None, :])


def newton_matrix(centre: Centre, H: NDArray[np.float64]) -> Tensor:
    """H + 2 Σ_c B_cᵀ K⁻¹ B_c, for H in Fortran order, which is overwritten; its lower triangle only: half the work."""
    slopes = centre.rows.slopes(centre.a)  # (q, unknowns, n)
    q, unknowns, n = slopes.shape
    C = torch.linalg.solve_triangular(centre.L, slopes.view(-1, n).mT, upper=False).mT.view(q, unknowns, n)
    for column in C.numpy():
        H = dsyrk(2.0, column.T, beta=1.0, c=H, trans=1, lower=1, overwrite_c=1)
    return torch.from_numpy(H)


def curvature(centre: Centre, dT: Tensor) -> Tensor:
    """The second-order term of 2∇φ along dT, damped where the series of A in dT grows."""
    rows, L, a = centre.rows, centre.L, centre.a
    m = dT.shape[1]
    first = -rows.adjoint(torch.cholesky_solve(rows.forward(times(dT, a)), L))
    second = -rows.adjoint(torch.cholesky_solve(rows.forward(times(dT, first)), L))
    mixed = outer(second, a, m)
    sizes = [float(torch.linalg.vector_norm(term)) for term in (first, second)]
    damping = 1.0 if 2 * sizes[1] <= sizes[0] else 0.5 * sizes[0] / sizes[1]
    return -damping * (outer(first, first, m) + mixed + mixed.mT)


def longest(to_unit: Tensor, dT: Tensor, dR: Tensor) -> float:
    """The longest step, at most one, that keeps T and R positive definite."""
    least = min(smallest_eigenvalue(to_unit * dT), smallest_eigenvalue(to_unit * dR))
    return min(1.0, -BOUNDARY / least) if least < 0 else 1.0
