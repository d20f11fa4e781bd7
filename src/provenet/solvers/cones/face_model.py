"""The Hessian of the factorised objective along the faces on which neurons lie: far smaller than all of it.

In dimension p a neuron that touches m walls has p − m directions left, so Jacobian and Hessian are formed in these
alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from provenet import batches, deadline
from provenet.problem import Program
from provenet.solvers.cones.faces import Walls
from provenet.solvers.neurons.hessian import coupling
from provenet.solvers.neurons.place import Place
from provenet.variable import Factors
from provenet.vectors import symmetric_product

_SAME = 1e-9  # singular values of unit rows below this come from a row counted twice
_NUMBERS = 2**25  # in the Jacobian along the faces,
_WORK = 4e10  # and multiply-adds for the Hessian, at most
_RIDGE = 1e-14


class FaceModel:
    """At a place, for walls that hold with equality: steps d = lift + (along the faces), of neurons (N, p + q).

    lift: the shortest step onto the walls.  The model is ⟨slope, d⟩ + ½ dᵀHd, H as `neurons.hessian.Model` has it.
    """

    def __init__(self, program: Program, at: Place, slope: Tensor, walls: Walls):
        factors = at.factors
        self._p = program.operator.p
        self._turn, kept, onto = _turned(walls, factors.left, factors.right.shape[1])
        self._kept = kept
        self.lift = torch.cat([onto, torch.zeros_like(factors.right)], dim=1)
        self._coupling = coupling(program, at)
        jacobian, moved = self._jacobian(program, at)
        bent = program.loss.hessian_product(at.prediction, jacobian.view(-1, *at.prediction.shape)).flatten(1)
        self._matrix = symmetric_product(jacobian, bent)
        self._matrix.diagonal().add_(program.beta)
        self._slope = self._along(slope + program.beta * self.lift) + bent @ moved.flatten()
        self._bent = self._along(self._couple(self.lift))

    @staticmethod
    def affordable(walls: Walls, at: Place) -> bool:
        """Whether it is small enough to be formed, and solved with once, in the time left; told from the number of
        walls."""
        N, p = at.factors.left.shape
        width, numbers = p + at.factors.right.shape[1], at.prediction.numel()
        free = float(N * width - int((walls.normals.abs().amax(2) > 0).sum()))
        formed, factored = (N * width**2 + free**2) * numbers, free**3 / 3
        if free * numbers > _NUMBERS or free**2 * numbers > _WORK:
            return False
        return deadline.affords(formed + factored)

    def solve(self, damping: float, coupled: bool) -> Tensor | None:
        """The step (N, p + q) that minimises the model, damped along the faces; None where that is not convex."""
        damped = self._matrix.clone()
        damped.diagonal().add_(damping + _RIDGE * float(damped.diagonal().max()))
        right = self._slope
        if coupled:
            self._add_coupling(damped)
            right = right + self._bent
        factor, failed = torch.linalg.cholesky_ex(damped)
        if int(failed) != 0:
            return None
        step = torch.zeros_like(self.lift)
        step[self._kept] = -torch.cholesky_solve(right[:, None], factor).squeeze(1)
        return self.lift + torch.bmm(self._turn, step[:, :, None]).squeeze(2)

    def _jacobian(self, program: Program, at: Place) -> tuple[Tensor, Tensor]:
        """∂Ŷ along the faces (F, n·c), neuron by neuron, and what the lift does to Ŷ, (n, …, c).

        A direction d of a first layer changes the prediction by that of a neuron d, v_j: no more of them than are kept
        are formed."""
        op, factors, p = program.operator, at.factors, self._p
        j, w = torch.nonzero(self._kept, as_tuple=True)
        jacobian = at.prediction.new_empty(len(j), at.prediction.numel())
        first, second = (torch.nonzero(side).flatten() for side in (w < p, w >= p))
        parts = first.split(batches.count(2 * at.prediction.numel(), batches.BLOCK)) if len(first) else ()
        for mine in parts:  # none where every first layer is in a corner of its cone
            own = j[mine]
            turned = Factors(self._turn[own, :p, w[mine]].contiguous(), factors.right[own], factors.gate[own])
            jacobian[mine] = op.alone(turned, slice(0, len(at.prediction))).flatten(1)
        every = torch.arange(factors.n_neurons)
        for mine in every.split(batches.count(2 * op.q * at.prediction.numel(), batches.BLOCK)):
            here = second[(j[second] >= mine[0]) & (j[second] <= mine[-1])]
            columns = op.second_layer_columns(factors.left[mine], factors.gate[mine]).flatten(2)
            jacobian[here] = columns[j[here] - mine[0], w[here] - p]
        return jacobian, op.forward_factors(replace(factors, left=self.lift[:, :p].contiguous()))

    def _along(self, full: Tensor) -> Tensor:
        """(N, p + q) in the coordinates along the faces."""
        return torch.bmm(self._turn.mT, full[:, :, None]).squeeze(2)[self._kept]

    def _couple(self, step: Tensor) -> Tensor:
        """(G dv, Gᵀdu)."""
        left = torch.bmm(self._coupling, step[:, self._p :, None])
        return torch.cat([left, torch.bmm(self._coupling.mT, step[:, : self._p, None])], dim=1).squeeze(2)

    def _add_coupling(self, matrix: Tensor) -> None:
        """G_k(j) between each neuron's own u_j and v_j."""
        N, width = self._kept.shape
        own = matrix.new_zeros(N, width, width)
        own[:, : self._p, self._p :] = self._coupling
        own[:, self._p :, : self._p] = self._coupling.mT
        own = torch.bmm(torch.bmm(self._turn.mT, own), self._turn)
        place = torch.full((N, width), -1)
        place[self._kept] = torch.arange(len(matrix))
        j, a, b = torch.nonzero((place[:, :, None] >= 0) & (place[:, None, :] >= 0), as_tuple=True)
        matrix[place[j, a], place[j, b]] += own[j, a, b]


def _turned(walls: Walls, u: Tensor, q: int) -> tuple[Tensor, Tensor, Tensor]:
    """Orthonormal coordinates (N, p + q, p + q) across and along each face, which of them are along it, and the
    shortest steps (N, p) from u onto it."""
    N, p = u.shape
    U, sigma, Vh = torch.linalg.svd(walls.normals, full_matrices=True)
    many = sigma.shape[1]
    real = sigma > _SAME
    turn = torch.eye(p + q, dtype=u.dtype).repeat(N, 1, 1)
    turn[:, :p, :p] = Vh.mT
    kept = torch.ones(N, p + q, dtype=torch.bool)
    kept[:, :many] = ~real
    height = torch.bmm(U[:, :, :many].mT, torch.bmm(walls.normals, u[:, :, None])).squeeze(2)
    across = torch.where(real, height / sigma.clamp_min(_SAME), 0.0)
    return turn, kept, -torch.bmm(Vh[:, :many].mT, across[:, :, None]).squeeze(2)
