"""Where the interior point starts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from provenet.certificates import duality_gap
from provenet.problem import Program
from provenet.solvers.interior.blocks import LinAlgError, Scaling, smallest_eigenvalue
from provenet.solvers.interior.newton import Centre, centre_at, outer
from provenet.solvers.interior.rows import Fit, Rows, block_size
from provenet.variable import Factors, Stack

_SHARE = 0.7  # the largest A_k of a cold start, as a share of β
_TRIES = 60
_USEFUL = 0.5  # a start with a larger relative gap is no better than none


def cold_centre(program: Program, fit: Fit) -> Centre:
    """T = sI with s such that the largest σ(A_k) is about _SHARE·β, and R = 2∇φ, kept away from zero."""
    op, beta = program.operator, program.beta
    m = block_size(op)
    eye = op.space.eye(m).expand(op.n_gates, m, m)
    s, A = cold_scale(program, fit.rows, fit.target, lambda A: float(program.gauge.polar(A).upper.max()))
    R = beta**2 * eye - outer(A, A, m)
    R = R + max(0.1 * beta**2 - smallest_eigenvalue(R), 0.0) * eye
    return centre_at(fit, Scaling.between(s * eye, R))


def cold_scale(program: Program, rows: Rows, target: Tensor, size: Callable[[Stack], float]) -> tuple[float, Stack]:
    """s at which A = X̃ᵀK⁻¹Y, K = I + s Σ_k X̃_kX̃_kᵀ, has a ``size`` of about _SHARE·β; and A.

    Sizes fall from β_max to zero as s grows, so that s is found by doubling and halving in logarithms.
    """
    op = program.operator
    kernel = rows.kernel(op.space.ones(op.n_gates, 1))
    # a mean of the eigenvalues that repeated samples do not change
    s = program.beta_max / program.beta * float(kernel.diagonal().sum() / kernel.square().sum())
    low, high = 0.0, float("inf")
    for _ in range(_TRIES):
        K = kernel * s
        K.diagonal().add_(1)
        A = rows.adjoint(torch.cholesky_solve(target, torch.linalg.cholesky(K)))
        excess = size(A) / (_SHARE * program.beta)
        if 0.6 <= excess <= 1.4:
            break
        if excess > 1:
            low, grown = s, s * min(excess**1.5, 100.0)
            s = grown if grown < high else (low * high) ** 0.5
        else:
            high, shrunk = s, s * max(excess, 0.01)
            s = shrunk if shrunk > low else (low * high) ** 0.5
    return s, A


def warm_centre(program: Program, fit: Fit, start: Factors) -> Centre:
    """T_k = (Z_kZ_kᵀ)^½/β of the start, pushed inside by μ/β², and R_k = μT_k⁻¹, with the μ of the start's gap.

    On the central path the gap is at most μ/2 for each of the P·m eigenvalues.
    """
    op, beta = program.operator, program.beta
    gap = duality_gap(program, op.forward_factors(start), float(start.penalty()))
    if not gap.relative < _USEFUL:
        return cold_centre(program, fit)
    m = block_size(op)
    eps = torch.finfo(op.dtype).eps
    mu = 2 * max(gap.absolute, eps * gap.primal) / (op.n_gates * m)
    basis, size = _square_roots(start.stack(op.n_gates), m)
    inside = size / beta + mu / beta**2
    T = basis * inside[:, None, :] @ basis.mT
    R = basis * (mu / inside)[:, None, :] @ basis.mT
    try:
        return centre_at(fit, Scaling.between(T, R))
    except LinAlgError:  # weights far too large for this β
        return cold_centre(program, fit)


def _square_roots(stack: Stack, m: int) -> tuple[Tensor, Tensor]:
    """The eigenvectors (P, m, m) and eigenvalues (P, m) of (Z_kZ_kᵀ)^½; in the right form ‖Z_k‖."""
    if m == 1:
        size = torch.linalg.vector_norm(stack, dim=(1, 2))[:, None]
        return torch.ones_like(size)[:, :, None], size
    basis, sigma, _ = torch.linalg.svd(stack, full_matrices=True)
    size = sigma.new_zeros(sigma.shape[0], m)
    size[:, : sigma.shape[1]] = sigma
    return basis, size
