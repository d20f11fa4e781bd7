"""The contract of a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from provenet.losses import Loss
from provenet.testing.close import assert_close, normal

PROX_STEPS = (1e-8, 1e-4, 1.0, 1e4, 1e8)
PROX_SIZES = (1e-6, 1.0, 1e3, 1e6)
FREE_SIZES = (1e-6, 1.0)  # larger predictions are steps to a constant that is added to all of them


def check_loss(loss: Loss, seed: int = 0) -> None:
    """Gradient, curvature, conjugate, prox, weights and units of a loss.

    Parameters
    ----------
    loss : Loss
        Yours, with its own (small) targets.
    seed : int, default 0
        Of the numbers that are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    for size in (1e-3, 1.0, 30.0):
        prediction = size * normal(generator, *loss.target.shape)
        other = prediction + size * normal(generator, *loss.target.shape)
        _check_derivatives(loss, prediction, other - prediction)
        _check_columns(loss, prediction)
        _check_convexity(loss, prediction, other)
        _check_fenchel(loss, prediction, other)
    far = 1e6 * normal(generator, *loss.target.shape)
    assert loss.plain.quadratic or float(loss.conjugate(far)) == math.inf, "the conjugate is finite outside its domain"
    assert not float(loss.conjugate(torch.full_like(far, math.nan))) < math.inf, "the conjugate of NaN is a number"
    for step in PROX_STEPS:
        for size in FREE_SIZES if loss.free else PROX_SIZES:
            _check_prox(loss, size * normal(generator, *loss.target.shape), step)
    _check_weights(loss, generator)
    _check_normalised(loss, generator)


def _check_derivatives(loss: Loss, prediction: Tensor, direction: Tensor) -> None:
    assert torch.autograd.gradcheck(loss.value, prediction.clone().requires_grad_()), "gradcheck of the value"
    at = prediction.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss.value(at), at)
    assert_close(loss.gradient(prediction), slope, 1e-9, "gradient against autograd", 1 + float(slope.abs().max()))
    _, curved = torch.autograd.functional.jvp(loss.gradient, prediction, direction)
    assert_close(loss.hessian_product(prediction, direction), curved, 1e-9, "hessian_product", 1 + _largest(curved))
    moved = torch.linalg.vector_norm(loss.gradient(prediction + direction) - loss.gradient(prediction))
    length = torch.linalg.vector_norm(direction)
    assert float(moved) <= loss.smoothness() * float(length) * (1 + 1e-9), "smoothness() is too small"


def _check_columns(loss: Loss, prediction: Tensor) -> None:
    if prediction.ndim != 2:
        return  # tokens are trained through torch
    b = torch.linspace(-1.0, 1.0, prediction.shape[1], dtype=prediction.dtype)
    for intercept in (None, b):
        value, slope = loss.in_columns(prediction.numpy().T.copy(), None if intercept is None else b.numpy())
        expected, steep = float(loss.value_at(prediction, intercept)), loss.gradient_at(prediction, intercept)
        assert abs(value - expected) <= 1e-12 * (1 + abs(expected)), "in_columns: its value"
        assert_close(torch.from_numpy(slope).T, steep, 1e-12, "in_columns: its slope", 1 + float(steep.abs().max()))


def _check_convexity(loss: Loss, a: Tensor, b: Tensor) -> None:
    for t in (0.1, 0.5, 0.9):
        chord = (1 - t) * float(loss.value(a)) + t * float(loss.value(b))
        assert float(loss.value(torch.lerp(a, b, t))) <= chord + 1e-12 * (1 + abs(chord)), "not convex on a segment"


def _check_fenchel(loss: Loss, prediction: Tensor, other: Tensor) -> None:
    """L(Ŷ) + L*(Θ) ≥ ⟨Θ, Ŷ⟩ for every Θ, with equality at the gradient."""
    theta = loss.dual_at(prediction)
    value, conjugate, product = (
        float(x) for x in (loss.value(prediction), loss.conjugate(theta), (theta * prediction).sum())
    )
    size = 1 + abs(value) + abs(conjugate) + float((theta * prediction).abs().sum())
    assert abs(value + conjugate - product) <= 1e-11 * size, "Fenchel–Young equality at the gradient"
    elsewhere = loss.dual_at(other)
    for largest in (0.0, 0.3, 1.0, math.inf):
        tau = loss.dual_scale(elsewhere, largest)
        assert 0 <= tau <= largest, f"dual_scale {tau} is not within [0, {largest}]"
        bound = float(loss.conjugate(tau * elsewhere))
        assert math.isfinite(bound), "dual_scale leaves the conjugate's domain"
        plain = float(loss.conjugate(min(1.0, largest) * elsewhere))
        assert bound <= plain + 1e-11 * (1 + abs(plain)), "dual_scale does worse than the largest scale up to one"
        product = float((tau * elsewhere * prediction).sum())
        assert value + bound >= product - 1e-11 * (size + abs(product) + abs(bound)), "Fenchel–Young inequality"


def _check_prox(loss: Loss, point: Tensor, step: float) -> None:
    """point − y = step·∇L(y), but for the rounding of y, that of numbers as large as the point and the pull."""
    y = loss.prox(point, step)
    assert bool(torch.isfinite(y).all()), f"prox is not finite (step {step:g}, point up to {_largest(point):.1e})"
    residual = y - point + step * loss.gradient(y)
    size = 1 + _largest(point) + step * _largest(loss.gradient(point))
    tol = max(1e-9, 100 * torch.finfo(y.dtype).eps * (1 + step * loss.smoothness()))
    assert_close(residual, torch.zeros_like(y), tol, f"prox, step {step:g}, point up to {_largest(point):.1e}", size)
    best = _prox_objective(loss, y, point, step)
    for other in (point, y + 1e-3 * (1 + y.abs()), y - 1e-3 * (1 + y.abs())):
        worse = _prox_objective(loss, other, point, step)
        assert best <= worse * (1 + 1e-12) + 1e-12, f"prox, step {step:g}: another point is better"
    each = torch.full_like(loss.weight, step)
    assert_close(loss.prox(point, each), y, 1e-9, "prox with a step a sample", 1 + _largest(y))


def _prox_objective(loss: Loss, y: Tensor, point: Tensor, step: float) -> float:
    return step * float(loss.value(y)) + 0.5 * float((y - point).square().sum())


def _check_weights(loss: Loss, generator: torch.Generator) -> None:
    """A weight of k is a sample repeated k times."""
    n = loss.target.shape[0]
    count = torch.randint(1, 4, (n,), generator=generator)
    weighted = loss.with_data(loss.target, count.to(loss.target.dtype))
    repeated = loss.with_data(loss.target.repeat_interleave(count, 0), None)
    prediction = normal(generator, *loss.target.shape)
    many = prediction.repeat_interleave(count, 0)
    shape = (-1, *([1] * (loss.target.ndim - 1)))
    slope = repeated.gradient(many)
    assert_close(weighted.value(prediction), repeated.value(many), 1e-12, "weighted value")
    first = torch.cumsum(count, 0) - count
    assert_close(weighted.gradient(prediction), slope[first] * count.view(shape), 1e-12, "weighted gradient")
    conjugate = repeated.conjugate(slope)
    assert_close(weighted.conjugate(weighted.gradient(prediction)), conjugate, 1e-11, "weighted conjugate")
    if loss.free:  # its prox ties samples together: a step a sample is another problem
        return
    step = 0.7
    proxes = loss.with_data(loss.target, None).prox(prediction, step * count.to(prediction.dtype).view(shape))
    assert_close(weighted.prox(prediction, step), proxes, 1e-9, "weighted prox", 1 + _largest(proxes))


def _check_normalised(loss: Loss, generator: torch.Generator) -> None:
    scaled, t = loss.normalised()
    assert math.log2(t) % 2 == 0, f"normalised: {t} is no power of four"
    prediction = normal(generator, *loss.target.shape)
    assert_close(loss.value(t * prediction), t * t * scaled.value(prediction), 1e-12, "L(tŶ) = t²L̃(Ŷ)")
    assert_close(loss.gradient(t * prediction), t * scaled.gradient(prediction), 1e-12, "∇L(tŶ) = t∇L̃(Ŷ)")
    assert 0.2 < _largest(scaled.target) < 5 or _largest(loss.target) == 0, "normalised targets are not of size one"


def _largest(x: Tensor) -> float:
    return float(x.abs().max())
