"""The Hessian of the factorised objective at one place: formed, or as products."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from provenet.problem import Program
from provenet.solvers.bm_factors import Place
from provenet.variable import Factors

_CG_TOLERANCE = 1e-2
_FORMED_NUMBERS = 2**22  # of the G_k of all neurons: beyond, they are only applied


class Model(ABC):
    """H = JᵀL''J + βI, and, where ``coupled``, G_k(j) between u_j and v_j.  Steps and slopes are (N, p + q)."""

    @abstractmethod
    def product(self, step: Tensor, coupled: bool) -> Tensor:
        """H·step."""

    @abstractmethod
    def solve(self, slope: Tensor, damping: float, coupled: bool, face: Tensor | None = None) -> Tensor | None:
        """−(H + damping·I)⁻¹ slope; None where that matrix is not positive definite.

        ``face`` (N, p, p): a projection for each neuron's first layer; the step solves among those that stay in it.
        """


class DenseModel(Model):
    def __init__(self, program: Program, at: Place):
        self._p = program.operator.p
        jacobian = _jacobian(program, at.factors)
        bent = program.loss.hessian_product(at.prediction, jacobian)
        self._matrix = jacobian.flatten(1) @ bent.flatten(1).T
        self._matrix.diagonal().add_(program.beta)
        self._coupling = _coupling(program, at)
        self._rounding = 1e-14 * float(self._matrix.diagonal().max())

    def product(self, step: Tensor, coupled: bool) -> Tensor:
        out = (self._matrix @ step.flatten()).view_as(step)
        return out + _couple(self._coupling, step) if coupled else out

    def solve(self, slope: Tensor, damping: float, coupled: bool, face: Tensor | None = None) -> Tensor | None:
        damped = self._matrix.clone()
        damped.diagonal().add_(damping + self._rounding)
        if coupled:
            count, width = slope.shape
            blocks, neuron = damped.view(count, width, count, width), torch.arange(count)
            blocks[neuron, : self._p, neuron, self._p :] += self._coupling
            blocks[neuron, self._p :, neuron, : self._p] += self._coupling.transpose(1, 2)
        if face is not None:
            slope = on_faces(face, slope)
            self._confine(damped, face)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if int(failed) != 0:
            return None
        return -torch.cholesky_solve(slope.reshape(-1, 1), factor).view_as(slope)

    def _confine(self, matrix: Tensor, face: Tensor) -> None:
        """PHP + size·(I − P), in place: across the faces nothing pulls, and nothing moves."""
        count, p = face.shape[:2]
        rows = matrix.view(count, -1, len(matrix))[:, :p]
        rows.copy_(torch.bmm(face, rows))
        columns = matrix.view(len(matrix), count, -1)[:, :, :p]
        columns.copy_(torch.bmm(columns.transpose(0, 1), face).transpose(0, 1))
        neuron = torch.arange(count)
        across = torch.eye(p, dtype=face.dtype) - face
        blocks = matrix.view(count, -1, count, matrix.shape[1] // count)
        blocks[neuron, :p, neuron, :p] += across * float(self._matrix.diagonal().max())


class ProductModel(Model):
    """Conjugate gradients on products; stopped early, or at negative curvature, the step still descends."""

    def __init__(self, program: Program, at: Place, steps: int):
        self._program, self._at, self._steps = program, at, steps
        self._theta = program.loss.gradient(at.prediction)
        formed = at.factors.n_neurons * program.operator.p * program.operator.q <= _FORMED_NUMBERS
        self._coupling = _coupling(program, at) if formed else None

    def product(self, step: Tensor, coupled: bool) -> Tensor:
        program, factors, p = self._program, self._at.factors, self._at.factors.left.shape[1]
        tangent = Factors(
            torch.cat([step[:, :p], factors.left]),
            torch.cat([factors.right, step[:, p:]]),
            torch.cat([factors.gate, factors.gate]),
        )
        bent = program.loss.hessian_product(self._at.prediction, program.operator.forward_factors(tangent))
        out = torch.cat(program.operator.adjoint_factors(bent, factors), dim=1).add_(step, alpha=program.beta)
        return out.add_(self._couple(step)) if coupled else out

    def _couple(self, step: Tensor) -> Tensor:
        """(G dv, Gᵀdu)."""
        if self._coupling is not None:
            return _couple(self._coupling, step)
        p = self._at.factors.left.shape[1]
        moves = Factors(step[:, :p], step[:, p:], self._at.factors.gate)
        return torch.cat(self._program.operator.adjoint_factors(self._theta, moves), dim=1)

    def solve(self, slope: Tensor, damping: float, coupled: bool, face: Tensor | None = None) -> Tensor | None:
        residual = -on_faces(face, slope)
        norm = start = float(torch.linalg.vector_norm(residual))
        step, direction = torch.zeros_like(slope), residual.clone()
        for _ in range(self._steps):
            image = on_faces(face, self.product(direction, coupled)).add_(direction, alpha=damping)
            curvature = float((direction * image).sum())
            if curvature <= 0:
                return step if bool(step.any()) else None
            length = norm**2 / curvature
            step.add_(direction, alpha=length)
            residual.add_(image, alpha=-length)
            before, norm = norm, float(torch.linalg.vector_norm(residual))
            if norm <= _CG_TOLERANCE * start:
                break
            direction = residual + (norm / before) ** 2 * direction
        return step


def on_faces(face: Tensor | None, step: Tensor) -> Tensor:
    """(P_j du_j, dv_j) for projections (N, p, p)."""
    if face is None:
        return step
    p = face.shape[1]
    return torch.cat([torch.bmm(face, step[:, :p, None]).squeeze(2), step[:, p:]], dim=1)


def _coupling(program: Program, at: Place) -> Tensor:
    """G_k(j) for every neuron, (N, p, q), from its gates only."""
    gates, which = torch.unique(at.factors.gate, return_inverse=True)
    return program.operator.restrict(gates).adjoint(program.loss.gradient(at.prediction))[which]


def _couple(coupling: Tensor, step: Tensor) -> Tensor:
    """(G dv, Gᵀdu)."""
    p = coupling.shape[1]
    left = torch.bmm(coupling, step[:, p:, None])
    right = torch.bmm(coupling.transpose(1, 2), step[:, :p, None])
    return torch.cat([left, right], dim=1).squeeze(2)


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
