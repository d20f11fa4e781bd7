"""Which bound of the polar to take: dense where the stack is small, by products with vectors where it is not."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from provenet import deadline, memory
from provenet.gauges import NOTHING, Asked, BoundKind, Bounds, Gauge
from provenet.operators import Operator
from provenet.polar.frobenius import deflated_bound
from provenet.polar.krylov import products_of
from provenet.polar.lanczos import spectral_bounds
from provenet.polar.met import met, remember
from provenet.ranks.context import least

LARGE_BYTES = 256 * 2**20  # a stack up to this size is formed, and so is that of some gates at a time
_SMALL_SIDE = 400  # an eigenproblem of this size is cheap enough for every look
_FINAL_WORK = 2e13  # multiply-adds that one exact bound at the end may take: a few minutes
_SPEED = 2e10  # multiply-adds a second, where there is a deadline
_FINAL_SHARE = 0.4  # of the free memory
_KERNEL_ROWS = 5_000  # of kernels made gate by gate
_AS_GOOD = 1e-4  # a certain bound is taken where it is no more than this looser than a probable one
_EPS = torch.finfo(torch.float64).eps
_DEAR = 1e9  # multiply-adds of one product with a vector for every gate, from which on each product counts
_LOOK, _FINAL = (60, 1e-5), (300, 1e-7)  # (steps, tolerance) of Lanczos


def is_large(operator: Operator) -> bool:
    """Whether the stack (P, p, q) is too large to be formed."""
    return operator.stack_bytes > LARGE_BYTES


def is_dear(operator: Operator) -> bool:
    """Whether the stack is too large to be formed, and each product with a vector for every gate counts."""
    return is_large(operator) and operator.n_gates * operator.neuron_work > _DEAR


def polar_bounds(
    operator: Operator, gauge: Gauge, theta: Tensor, final: bool = False, asked: Asked = NOTHING
) -> Bounds:
    """Bounds (P,) of γ°(A_k*Θ); ``final``: of the best kind that can be afforded once.

    asked: how well the largest has to be known, where that is dear.  Where there is no time for A*Θ it is known by the
    size of Θ alone.
    """
    try:
        return _found(operator, gauge, theta, final, asked)
    except deadline.TooLong:
        return _by_size(operator, gauge, theta)


def _found(operator: Operator, gauge: Gauge, theta: Tensor, final: bool, asked: Asked) -> Bounds:
    if not is_large(operator):
        stack = operator.adjoint(theta)
        return replace(gauge.largest(stack, asked), stack=stack)
    if not gauge.spectral or _exact(operator, final):
        return _by_gates(operator, gauge, theta, asked)
    dear = is_dear(operator)
    if dear and (asked.least > asked.lost or (asked.enough > 0 and deadline.over())):
        return _by_size(operator, gauge, theta)
    steps, finest = _FINAL if final and not dear else _LOOK
    tol = max(finest, asked.near)
    again = met(operator, gauge, theta)
    if again is not None and float(again.upper.max()) <= max(asked.enough, (1 + tol) * float(again.lower.max())):
        return again
    noise = _noise(operator, theta)
    seed = None if final or (dear and asked.against < math.inf) else 0  # of a look: a certificate may meet it again
    enough, lost = (asked.enough, asked.lost) if dear else (0.0, math.inf)
    products = products_of(operator, theta)
    lower, upper = spectral_bounds(products, *operator.stack_shape, noise, steps, tol, seed, enough, lost, dear)
    bounds = Bounds(lower, torch.minimum(upper, _by_size(operator, gauge, theta).upper), BoundKind.PROBABILISTIC)
    if dear and seed is None:  # starts that data could know are for no certificate
        remember(operator, theta, bounds)
    if final and operator.has_kernel and operator.kernel_rows <= _KERNEL_ROWS:
        gates = (operator.restrict(torch.tensor([k])) for k in range(operator.n_gates))
        worst = noise * operator.output_shape[0] ** 0.5  # no statistics here: the bound is to be certain
        certain = torch.tensor([deflated_bound(gate, theta, worst) for gate in gates], dtype=torch.float64)
        if float(certain.max()) <= (1 + _AS_GOOD) * float(upper.max()):
            return Bounds(lower, certain, BoundKind.DETERMINISTIC)
    return bounds


def _exact(operator: Operator, final: bool) -> bool:
    """Whether G may be formed, some gates at a time, for eigenvalues of its smaller Gram side."""
    gates, p, q = operator.stack_shape
    small, large = min(p, q), max(p, q)
    if p * q * operator.dtype.itemsize <= LARGE_BYTES and small <= _SMALL_SIDE:
        return True
    work = gates * (2.0 * small**2 * large + 4.0 * small**3 + 2.0 * operator.kernel_rows * p * q)
    room = operator.dtype.itemsize * (5 * p * q + 3 * small**2)
    if not final or work > min(_FINAL_WORK, _SPEED * deadline.left()):
        return False
    return least(float(memory.fits(room, _FINAL_SHARE))) > 0


def _by_gates(operator: Operator, gauge: Gauge, theta: Tensor, asked: Asked) -> Bounds:
    """Dense, as many gates at a time as make no large stack."""
    one = operator.p * operator.q * operator.dtype.itemsize
    parts = [
        gauge.restrict(gates).largest(operator.restrict(gates).adjoint(theta), asked)
        for gates in torch.arange(operator.n_gates).split(max(1, LARGE_BYTES // one))
    ]
    kind = max((part.kind for part in parts), key=list(BoundKind).index)
    return Bounds(torch.cat([part.lower for part in parts]), torch.cat([part.upper for part in parts]), kind)


def _by_size(operator: Operator, gauge: Gauge, theta: Tensor) -> Bounds:
    """γ_k°(A_k*Θ) ≤ γ°(1)‖A‖‖Θ‖, of next to no work: far from tight, and true."""
    shards = operator.shards  # of all processes' rows
    squares = (torch.linalg.vector_norm(theta[rows], dtype=torch.float64).square() for rows in shards.slices)
    size = float(shards.add(squares)) ** 0.5 * (1 + (theta[0].numel() * shards.n + shards.count) * _EPS)
    upper = gauge.rounding(operator.p, operator.q) * operator.norm_upper() * size * (1 + 4 * _EPS)
    everyone = torch.full((operator.n_gates,), upper, dtype=torch.float64)
    return Bounds(torch.zeros_like(everyone), everyone, BoundKind.DETERMINISTIC)


def _noise(operator: Operator, theta: Tensor) -> float:
    """What rounding does to G v, v a unit vector: at √n of the worst case, as roundings that know nothing of each
    other add up (Higham and Mary 2019).  The worst case is added where the polar enters a certificate."""
    n = operator.shards.n
    worst = operator.rounding(theta) * (1 + operator.product_terms / n)
    return 6 * worst / n**0.5
