"""The contracts of gauges: with a prox, and of cones."""

from __future__ import annotations

import torch
from torch import Tensor

from provenet.gauges import ConeGauge, ProxGauge
from provenet.testing.close import assert_close, normal
from provenet.variable import Factors

SHAPES = ((4, 5, 3), (3, 2, 6), (3, 4, 1), (2, 1, 5), (2, 1, 1))
OUTPUTS = (1, 3)
SCALES = (1e-140, 1e-8, 1.0, 1e8, 1e140)
POLAR_SCALES = (1e-290, 1e290)  # a polar that under- or overflows would prove anything
HAIR = 1e-7  # of ‖u‖: unit rows that a neuron in its cone may violate


def check_gauge(gauge: ProxGauge, shapes: tuple[tuple[int, int, int], ...] = SHAPES, seed: int = 0) -> None:
    """Moreau identity, Hölder and values on random, low-rank, ill-conditioned, zero and extreme blocks.

    Parameters
    ----------
    gauge : ProxGauge
        Yours.
    shapes : tuple of (P, p, q)
        Of the stacks that are tried.
    seed : int, default 0
        Of the numbers that are drawn.
    """
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


def check_cone_gauge(gauge: ConeGauge, outputs: tuple[int, ...] = OUTPUTS, seed: int = 0) -> None:
    """Neurons of its cones never exceed the polar's upper bound; its atoms are such neurons, and so are those it finds
    violated; restricted to some gates it is the same.

    Parameters
    ----------
    gauge : ConeGauge
        Yours.
    outputs : tuple of int
        The q that are tried.
    seed : int, default 0
        Of the numbers that are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    P, p = gauge.region.inside.shape
    gate = torch.arange(P).repeat_interleave(20)
    for q in outputs:
        for slope in _stacks(generator, (P, p, q)):
            bounds = gauge.polar(slope)
            _check_bounds(bounds.lower, bounds.upper)
            _check_bounds(bounds.lower.max(), gauge.largest(slope).upper.max() * (1 + 1e-9))
            some = gauge.region.inside[gate] + 0.3 * normal(generator, len(gate), p)
            moved = gauge.inside(Factors(some, normal(generator, len(gate), q), gate)).left
            assert bool((gauge.region.slack(moved, gate) >= 0).all()), "inside: a neuron is not in its cone"
            reached = torch.linalg.vector_norm(torch.bmm(slope[gate].mT, moved[:, :, None]).squeeze(2), dim=1)
            length = torch.linalg.vector_norm(moved, dim=1)
            assert bool((reached <= length * bounds.upper[gate] * (1 + 1e-12)).all()), "a neuron exceeds the polar"
            _check_atoms(gauge, slope, bounds.upper)


def _check_atoms(gauge: ConeGauge, slope: Tensor, upper: Tensor) -> None:
    u, v = gauge.atom(slope)
    every = torch.arange(len(slope))
    assert bool((gauge.region.slack(u, every) >= -HAIR).all()), "atom: u is not in its cone"
    reached = torch.einsum("kp,kpq,kq->k", u, slope, v)
    assert bool((reached <= upper * (1 + HAIR)).all()), "an atom exceeds the polar's upper bound"
    threshold = 0.5 * float(reached.max())
    gates, lefts, rights = gauge.violated(slope, threshold)
    found = torch.einsum("kp,kpq,kq->k", lefts, slope[gates], rights)
    assert bool((found > threshold).all()), "violated: a neuron below the threshold"
    assert bool((found[:-1] >= found[1:]).all()), "violated: the most violated do not come first"
    assert set(torch.nonzero(reached > threshold * (1 + HAIR)).flatten().tolist()) <= set(gates.tolist()), (
        "violated: a gate is missing"
    )
    if len(slope) > 1:
        few = gauge.restrict(every[1:]).polar(slope[1:]).upper.max()
        assert float(few) >= float(reached[1:].max()) * (1 - HAIR), "restrict: other cones"


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


def _check_prox(gauge: ProxGauge, stack: Tensor, scale: float) -> None:
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


def _check_polar(gauge: ProxGauge, slope: Tensor, stack: Tensor) -> None:
    """Hölder at random points, and where it is nearly an equality: what a prox just below the polar keeps."""
    bounds = gauge.polar(slope)
    _check_bounds(bounds.lower, bounds.upper)
    product = (slope * stack).sum(dim=(1, 2)).abs()
    assert bool((product <= gauge.values(stack) * bounds.upper).all()), "Hölder: ⟨G, Z⟩ > γ(Z)·γ°(G)"
    unit = slope / slope.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(slope.dtype).tiny)
    polar = gauge.polar(unit)
    for k in torch.nonzero(polar.lower > 0).flatten().tolist():
        own = gauge.restrict(torch.tensor([k]))
        near, _ = own.prox(unit[k : k + 1], float(polar.lower[k]) * (1 - 1e-4))  # zero where the polar is no larger
        size = float(own.values(near))
        assert size > 0, "the polar's lower bound is above the polar"
        assert float((near * unit[k]).sum()) <= size * float(polar.upper[k]), "the polar's upper bound is exceeded"


def _check_bounds(lower: Tensor, upper: Tensor) -> None:
    assert bool((lower <= upper).all()), "polar: lower above upper"
    assert bool((lower >= 0).all()), "polar: negative lower bound"


def _check_factorise(gauge: ProxGauge, stack: Tensor) -> None:
    size = float(stack.abs().max())
    factors = gauge.factorise(stack)
    assert_close(factors.stack(stack.shape[0]), stack, 1e-12, "factorise: neurons add up to the stack", size)
    assert_close(gauge.penalty(factors), gauge.value(stack), 1e-12, "factorise: penalty = γ")
