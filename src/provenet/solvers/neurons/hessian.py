"""The Hessian of the factorised objective at one place: formed, or as products."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from provenet import deadline
from provenet.problem import Program
from provenet.solvers.neurons.place import Place
from provenet.variable import Factors

_CG_TOLERANCE = 1e-2
_FORMED_NUMBERS = 2**22  # of the G_k of all neurons: beyond, they are only applied


class Model(ABC):
    """H = JᵀL''J + βI, and, where ``coupled``, G_k(j) between u_j and v_j.  Steps and slopes are (N, p + q)."""

    @abstractmethod
    def product(self, step: Tensor, coupled: bool) -> Tensor:
        """H·step."""

    @abstractmethod
    def solve(self, slope: Tensor, damping: float, coupled: bool, across: Tensor | None = None) -> Tensor | None:
        """−(H + damping·I)⁻¹ slope; None where that matrix is not positive definite.

        ``across`` (N, m, p): orthonormal rows, or zeros, that no neuron's first layer may move along; the step solves
        among those that do not.
        """


class DenseModel(Model):
    def __init__(self, program: Program, at: Place):
        self._p = program.operator.p
        jacobian = program.operator.jacobian(at.factors).flatten(0, 1)
        bent = program.loss.hessian_product(at.prediction, jacobian)
        self._matrix = jacobian.flatten(1) @ bent.flatten(1).T
        self._matrix.diagonal().add_(program.beta)
        self._coupling = coupling(program, at)
        self._rounding = 1e-14 * float(self._matrix.diagonal().max())

    def product(self, step: Tensor, coupled: bool) -> Tensor:
        out = (self._matrix @ step.flatten()).view_as(step)
        return out + _couple(self._coupling, step) if coupled else out

    def solve(self, slope: Tensor, damping: float, coupled: bool, across: Tensor | None = None) -> Tensor | None:
        damped = self._matrix.clone()
        damped.diagonal().add_(damping + self._rounding)
        if coupled:
            count, width = slope.shape
            blocks, neuron = damped.view(count, width, count, width), torch.arange(count)
            blocks[neuron, : self._p, neuron, self._p :] += self._coupling
            blocks[neuron, self._p :, neuron, : self._p] += self._coupling.transpose(1, 2)
        free = None if across is None else _Free(across, slope.shape[1])
        right = slope.flatten()
        if free is not None:
            damped, right = free.matrix(damped), free.vector(right)
        factor, failed = torch.linalg.cholesky_ex(damped)
        if int(failed) != 0:
            return None
        step = -torch.cholesky_solve(right[:, None], factor).squeeze(1)
        return (step if free is None else free.back(step)).view_as(slope)


class _Free:
    """Coordinates in which each neuron's first layer moves along its face only: fewer unknowns, a smaller system."""

    def __init__(self, across: Tensor, width: int):
        """across (N, m, p): orthonormal rows, or zeros.  width: p + q."""
        N, _, p = across.shape
        self._shape = N, width
        face = torch.eye(p, dtype=across.dtype) - torch.bmm(across.mT, across)
        along, turn = torch.linalg.eigh(face)  # an orthonormal basis: across the face, then along it
        self._turn = torch.eye(width, dtype=face.dtype).repeat(N, 1, 1)
        self._turn[:, :p, :p] = turn
        kept = torch.ones(self._shape, dtype=torch.bool)
        kept[:, :p] = along > 0.5
        self._kept = torch.nonzero(kept.flatten()).flatten()

    def matrix(self, full: Tensor) -> Tensor:
        count, width = self._shape
        rows = torch.bmm(self._turn.mT, full.view(count, width, -1)).view_as(full)[self._kept]
        turned = torch.bmm(rows.view(len(rows), count, width).transpose(0, 1), self._turn)
        return turned.transpose(0, 1).reshape(len(rows), -1)[:, self._kept]

    def vector(self, full: Tensor) -> Tensor:
        count, width = self._shape
        return torch.bmm(self._turn.mT, full.view(count, width, 1)).flatten()[self._kept]

    def back(self, few: Tensor) -> Tensor:
        count, width = self._shape
        full = few.new_zeros(count * width)
        full[self._kept] = few
        return torch.bmm(self._turn, full.view(count, width, 1)).flatten()


class ProductModel(Model):
    """Conjugate gradients on products; stopped early, by a deadline too, or at negative curvature, the step still
    descends."""

    def __init__(self, program: Program, at: Place, steps: int):
        self._program, self._at, self._steps = program, at, steps
        self._theta = program.loss.gradient(at.prediction)
        formed = at.factors.n_neurons * program.operator.p * program.operator.q <= _FORMED_NUMBERS
        self._coupling = coupling(program, at) if formed else None

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

    def solve(self, slope: Tensor, damping: float, coupled: bool, across: Tensor | None = None) -> Tensor | None:
        residual = -on_faces(across, slope)
        norm = start = float(torch.linalg.vector_norm(residual))
        step, direction = torch.zeros_like(slope), residual.clone()
        for _ in range(self._steps):
            image = on_faces(across, self.product(direction, coupled)).add_(direction, alpha=damping)
            curvature = float((direction * image).sum())
            if curvature <= 0:
                return step if bool(step.any()) else None
            length = norm**2 / curvature
            step.add_(direction, alpha=length)
            residual.add_(image, alpha=-length)
            before, norm = norm, float(torch.linalg.vector_norm(residual))
            if norm <= _CG_TOLERANCE * start or deadline.over():
                break
            direction = residual + (norm / before) ** 2 * direction
        return step


def on_faces(across: Tensor | None, step: Tensor) -> Tensor:
    """(du_j − B_jᵀB_j du_j, dv_j) for orthonormal rows B_j, or zeros, (N, m, p)."""
    if across is None:
        return step
    p = across.shape[2]
    off = torch.bmm(across.mT, torch.bmm(across, step[:, :p, None])).squeeze(2)
    return torch.cat([step[:, :p] - off, step[:, p:]], dim=1)


def coupling(program: Program, at: Place) -> Tensor:
    """G_k(j) for every neuron, (N, p, q), from its gates only."""
    gates, which = torch.unique(at.factors.gate, return_inverse=True)
    return program.operator.restrict(gates).adjoint(program.loss.gradient(at.prediction))[which]


def _couple(coupling: Tensor, step: Tensor) -> Tensor:
    """(G dv, Gᵀdu)."""
    p = coupling.shape[1]
    left = torch.bmm(coupling, step[:, p:, None])
    right = torch.bmm(coupling.transpose(1, 2), step[:, :p, None])
    return torch.cat([left, right], dim=1).squeeze(2)
