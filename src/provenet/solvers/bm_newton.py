"""Damped Newton on the factors: Levenberg–Marquardt with the exact Hessian, dense or by conjugate gradients.

The Hessian of BM eq. 17, 18 at neurons (u_j, v_j) behind gates k(j), with J the Jacobian of Ŷ and G = A*∇L(Ŷ):

    H = JᵀL''J + βI + [ 0  G_k(j) ; G_k(j)ᵀ  0 ] on each neuron's own (u_j, v_j)

Rotations U_kQ, V_kQ leave the objective as it is: H has null directions, along which the gradient vanishes and the
damping keeps the step finite.

**Straight steps.**  A step (du, dv) changes Z_k by du vᵀ + u dvᵀ + du dvᵀ.  The Newton model knows the first two; the
last moves the prediction off the model, and where β is small that forces tiny steps along a curved valley.  The neuron
(−du, dv) takes it out again: the prediction then is exactly linear in the step, at the price of a neuron that is
quadratically small.  Each step is tried plain, straight for the neurons it changes little, and straight for all;
the best is kept and compressed to at most min(p, q) neurons a gate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.bm_factors import Place, compress, gradient, place, shifted
from provenet.variable import Factors

_TRIES = 30  # dampings tried in one step
_LITTLE = 0.25  # a neuron changes little where ‖du‖‖dv‖ is below this part of ‖u‖‖v‖
_FLAT = 1e-13  # a promised decrease below this part of the objective drowns in rounding


@dataclass(frozen=True)
class NewtonLimits:
    """dense: unknowns N(p + q) up to which the Hessian is formed.  cg_steps: products a step beyond that."""

    dense: int = 2000
    dense_entries: int = 20_000_000  # of the Jacobian, N(p + q) × n·c
    cg_steps: int = 100


@dataclass(frozen=True)
class NewtonMove:
    """Where a step led, the damping for the next one, and by how much the objective fell.  ``stuck``: not at all."""

    place: Place
    damping: float
    decrease: float
    stuck: bool = False


def newton_step(program: Program, at: Place, damping: float, limits: NewtonLimits) -> NewtonMove:
    """One step; ``damping`` is in units of the largest curvature."""
    slope = gradient(program, at)
    unknowns = slope.numel()
    small = unknowns <= limits.dense and unknowns * at.prediction.numel() <= limits.dense_entries
    model: _Model = _DenseModel(program, at) if small else _ProductModel(program, at, limits.cg_steps)
    for _ in range(_TRIES):
        step = model.solve(slope, damping * model.scale)
        if step is None:
            damping = max(4 * damping, 1e-12)
            continue
        promised = -float((slope * step).sum() + 0.5 * (step * model.product(step)).sum())
        if promised <= _FLAT * abs(at.value):
            return _last_digits(program, at, slope, step, damping)
        best = min(_candidates(program, at.factors, step), key=lambda candidate: candidate.value)
        decrease = at.value - best.value
        quality = decrease / promised
        if quality > 0.75:
            damping = max(damping / 4, 1e-14)
        elif not quality >= 0.25:
            damping *= 4
        if quality > 0.05:
            return NewtonMove(best, damping, decrease)
    return NewtonMove(at, damping, 0.0, stuck=True)


def _candidates(program: Program, factors: Factors, step: Tensor) -> list[Place]:
    p = factors.left.shape[1]
    plain = shifted(factors, step)
    cross = Factors(-step[:, :p], step[:, p:], factors.gate)
    little = _size(cross) < _LITTLE * _size(factors)
    tries = [plain, Factors.join(plain, cross)]
    if bool(little.any()) and not bool(little.all()):
        tries.append(Factors.join(plain, cross.select(little)))
    return [place(program, compress(factors)) for factors in tries]


def _size(factors: Factors) -> Tensor:
    return torch.linalg.vector_norm(factors.left, dim=1) * torch.linalg.vector_norm(factors.right, dim=1)


def _last_digits(program: Program, at: Place, slope: Tensor, step: Tensor, damping: float) -> NewtonMove:
    """Where the objective no longer tells two points apart, the gradient still does."""
    rounding = 4 * _FLAT * abs(at.value)
    for candidate in _candidates(program, at.factors, step):
        steepness = float(torch.linalg.vector_norm(gradient(program, candidate)))
        if candidate.value <= at.value + rounding and steepness < 0.5 * float(torch.linalg.vector_norm(slope)):
            return NewtonMove(candidate, max(damping / 4, 1e-14), 0.0)
    return NewtonMove(at, damping, 0.0, stuck=True)


class _Model(ABC):
    """The Hessian at one place: products, and solves with H + damping·I."""

    scale: float  # a measure of the largest curvature

    @abstractmethod
    def product(self, step: Tensor) -> Tensor:
        """H·step, (N, p + q)."""

    @abstractmethod
    def solve(self, slope: Tensor, damping: float) -> Tensor | None:
        """−(H + damping·I)⁻¹ slope, (N, p + q); None where that matrix is not positive definite."""


class _DenseModel(_Model):
    def __init__(self, program: Program, at: Place):
        factors, p, q = at.factors, program.operator.p, program.operator.q
        count = factors.n_neurons
        jacobian = _jacobian(program, factors)
        bent = program.loss.hessian_product(at.prediction, jacobian)
        self._matrix = jacobian.flatten(1) @ bent.flatten(1).T
        self._matrix.diagonal().add_(program.beta)
        coupling = _coupling(program, at)
        blocks = self._matrix.view(count, p + q, count, p + q)
        neuron = torch.arange(count)
        blocks[neuron, :p, neuron, p:] += coupling
        blocks[neuron, p:, neuron, :p] += coupling.transpose(1, 2)
        self.scale = float(self._matrix.diagonal().max())

    def product(self, step: Tensor) -> Tensor:
        return (self._matrix @ step.flatten()).view_as(step)

    def solve(self, slope: Tensor, damping: float) -> Tensor | None:
        damped = self._matrix.clone()
        damped.diagonal().add_(damping)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if int(failed) != 0:
            return None
        return -torch.cholesky_solve(slope.reshape(-1, 1), factor).view_as(slope)


class _ProductModel(_Model):
    """Conjugate gradients on products; stopped early, or at negative curvature, the step still descends."""

    def __init__(self, program: Program, at: Place, steps: int):
        self._program, self._at, self._steps = program, at, steps
        self._coupling = _coupling(program, at)
        size = torch.maximum(at.factors.left.square().sum(1).max(), at.factors.right.square().sum(1).max())
        self.scale = program.beta + program.loss.smoothness() * float(size)

    def product(self, step: Tensor) -> Tensor:
        program, factors, p = self._program, self._at.factors, self._at.factors.left.shape[1]
        du, dv = step[:, :p], step[:, p:]
        tangent = Factors(
            torch.cat([du, factors.left]), torch.cat([factors.right, dv]), torch.cat([factors.gate, factors.gate])
        )
        bent = program.loss.hessian_product(self._at.prediction, program.operator.forward_factors(tangent))
        left, right = program.operator.adjoint_factors(bent, factors)
        left = left + torch.bmm(self._coupling, dv.unsqueeze(2)).squeeze(2)
        right = right + torch.bmm(self._coupling.transpose(1, 2), du.unsqueeze(2)).squeeze(2)
        return torch.cat([left, right], dim=1).add_(step, alpha=program.beta)

    def solve(self, slope: Tensor, damping: float) -> Tensor | None:
        residual = -slope
        norm = start = float(torch.linalg.vector_norm(residual))
        step, direction = torch.zeros_like(slope), residual.clone()
        for _ in range(self._steps):
            image = self.product(direction).add_(direction, alpha=damping)
            curvature = float((direction * image).sum())
            if curvature <= 0:
                return step if bool(step.any()) else None
            length = norm**2 / curvature
            step.add_(direction, alpha=length)
            residual.add_(image, alpha=-length)
            before, norm = norm, float(torch.linalg.vector_norm(residual))
            if norm <= 1e-2 * start:
                break
            direction = residual + (norm / before) ** 2 * direction
        return step


def _coupling(program: Program, at: Place) -> Tensor:
    """G_k(j) for every neuron, (N, p, q), from its gates only."""
    gates, which = torch.unique(at.factors.gate, return_inverse=True)
    return program.operator.restrict(gates).adjoint(program.loss.gradient(at.prediction))[which]


def _jacobian(program: Program, factors: Factors) -> Tensor:
    """∂Ŷ by every weight, neuron by neuron, (N(p + q), n, …, c): A_k(e_a v_jᵀ) and A_k(u_j e_bᵀ)."""
    op, p, q = program.operator, program.operator.p, program.operator.q
    columns = torch.empty(factors.n_neurons, p + q, *op.output_shape, dtype=op.dtype)
    basis_left, basis_right = torch.eye(p, dtype=op.dtype), torch.eye(q, dtype=op.dtype)
    for j in range(factors.n_neurons):
        u, v, gate = factors.left[j : j + 1], factors.right[j : j + 1], factors.gate[j : j + 1]
        for a in range(p):
            columns[j, a] = op.forward_factors(Factors(basis_left[a : a + 1], v, gate))
        for b in range(q):
            columns[j, p + b] = op.forward_factors(Factors(u, basis_right[b : b + 1], gate))
    return columns.flatten(0, 1)
