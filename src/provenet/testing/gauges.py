"""The contract of a gauge."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.gauges import Gauge, GroupNorm
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors

SHAPES = ((4, 5, 3), (3, 2, 6), (3, 4, 1), (2, 1, 5), (2, 1, 1))
SCALES = (1e-140, 1e-8, 1.0, 1e8, 1e140)
POLAR_SCALES = (1e-290, 1e290)  # a polar that under- or overflows would prove anything


def check_gauge(gauge: Gauge, shapes: tuple[tuple[int, int, int], ...] = SHAPES, seed: int = 0) -> None:
    """Moreau identity, Hölder, atoms and values on random, low-rank, ill-conditioned, zero and extreme blocks."""
    generator = torch.Generator().manual_seed(seed)
    for shape in shapes:
        for scale in SCALES:
            for stack in _stacks(generator, shape):
                _check_prox(gauge, stack * scale, scale)
                _check_polar(gauge, stack * scale, normal(generator, *shape))
                _check_factorise(gauge, stack * scale)
        for scale in POLAR_SCALES:
            for stack in _stacks(generator, shape):
                _check_polar(gauge, stack * scale, normal(generator, *shape))


def _stacks(generator: torch.Generator, shape: tuple[int, int, int]) -> list[Tensor]:
    P, p, q = shape
    plain = normal(generator, *shape)
    rank_one = normal(generator, P, p, 1) @ normal(generator, P, 1, q)
    U, _, Vh = torch.linalg.svd(plain, full_matrices=False)
    spread = torch.logspace(0, -12, U.shape[2], dtype=torch.float64)
    ill = (U * spread) @ Vh
    mixed = plain.clone()
    mixed[0] = 0
    mixed[-1] *= 1e-10
    return [plain, rank_one, ill, mixed, torch.zeros(shape, dtype=torch.float64)]


def _check_prox(gauge: Gauge, stack: Tensor, scale: float) -> None:
    """Z = prox(Z) + G with γ°(G) ≤ step and ⟨G, prox(Z)⟩ = step·γ(prox(Z)): Moreau, and optimality itself."""
    for relative_step in (1e-12, 1e-7, 1e-3, 0.3, 1.0, 1e3):
        step = relative_step * scale
        before = stack.clone()
        out, values = gauge.prox(stack, step)
        assert torch.equal(stack, before), "prox changes its argument"
        assert bool(torch.isfinite(out).all()), f"prox is not finite (scale {scale:g}, step {step:g})"
        unit, rest = out / scale, (stack - out) / scale
        size = float(torch.linalg.vector_norm(stack / scale)) + relative_step
        tol = 1e-10 * size
        true = gauge.values(unit)
        assert_close(values / scale, true, 1e-10, "prox: its second answer is γ of the first", size)
        polar = gauge.polar(rest).lower
        assert float(polar.max()) <= relative_step + tol, f"Moreau: the rest leaves the polar ball (step {step:g})"
        product = (unit * rest).sum(dim=(1, 2))
        assert_close(product, relative_step * true, 1e-10, "Moreau: ⟨G, prox⟩ = step·γ(prox)", size * size)


def _check_polar(gauge: Gauge, slope: Tensor, stack: Tensor) -> None:
    bounds = gauge.polar(slope)
    assert bool((bounds.lower <= bounds.upper).all()), "polar: lower above upper"
    assert bool((bounds.lower >= 0).all()), "polar: negative lower bound"
    product = (slope * stack).sum(dim=(1, 2)).abs()
    assert bool((product <= gauge.values(stack) * bounds.upper).all()), "Hölder: ⟨G, Z⟩ > γ(Z)·γ°(G)"
    try:
        u, v = gauge.atom(slope)
    except ValueError:  # this gauge's atoms of this shape are no neurons
        return
    reached = torch.einsum("kp,kpq,kq->k", u, slope, v)
    live = bounds.upper > 0
    each = [gauge.penalty(Factors(u[k][None], v[k][None], k[None])) for k in torch.nonzero(live).flatten()]
    assert_close(torch.tensor(each), torch.ones(len(each), dtype=torch.float64), 1e-9, "atom: a neuron of penalty one")
    assert bool((reached >= bounds.lower * (1 - 1e-9)).all()), "the atom does not attain the polar's lower bound"
    assert bool((reached <= bounds.upper).all()), "an atom exceeds the polar's upper bound"


def _check_factorise(gauge: Gauge, stack: Tensor) -> None:
    size = float(stack.abs().max())
    factors = gauge.factorise(stack)
    assert_close(factors.stack(stack.shape[0]), stack, 1e-12, "factorise: neurons add up to the stack", size)
    if min(stack.shape[1:]) == 1 or not isinstance(gauge, GroupNorm):
        assert_close(gauge.penalty(factors), gauge.value(stack), 1e-12, "factorise: penalty = γ")
