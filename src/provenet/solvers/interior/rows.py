"""The rows M_k = A_k a gate of a program with squared loss, as the interior point needs them.

Â(Z) = Σ_k M_k Z_k with M_k (n, p), the square roots of the sample weights in its rows.  Each gate's rows are scaled by
a small matrix G_k (P, m, m): m = p multiplies features, m = 1 multiplies the gate as a whole.  Two ways to hold them:

`DenseRows`: M as an array.  Where n > P·p it is replaced by the triangle of its QR factorisation: a rotation
of the samples changes nothing in a sum of squares, and the part of the targets outside the range of M is a constant.
`KernelRows`: nothing of size n·P·p, only the operator and its kernel (XXᵀ) ∘ (D diag(t) Dᵀ).

A free intercept b is eliminated: what is left of rows and targets is orthogonal to the square roots of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from provenet.operators import GatedRows, Operator
from provenet.problem import Program
from provenet.variable import Stack


class Rows(Protocol):
    """X̃_k = M_k G_k."""

    def scaled(self, G: Tensor) -> Rows:
        """The rows times G, (P, 1, 1) or (P, p, p)."""

    def forward(self, stack: Stack) -> Tensor:
        """Σ_k X̃_k ζ_k, (n, q)."""

    def adjoint(self, residual: Tensor) -> Stack:
        """X̃_kᵀ W, (P, p, q)."""

    def kernel(self, weight: Tensor) -> Tensor:
        """Σ_k X̃_k diag(weight_k) X̃_kᵀ, (n, n), for weight (P, m)."""

    def slopes(self, a: Stack) -> Tensor:
        """X̃_k E a_k over an orthonormal basis E of the symmetric m × m matrices: (q, unknowns, n)."""


@dataclass(frozen=True)
class DenseRows:
    """columns: X̃_kᵀ (P, p, n).  m: the size of the unknown blocks."""

    columns: Tensor
    m: int

    def scaled(self, G: Tensor) -> DenseRows:
        return replace(self, columns=self.columns * G if self.m == 1 else torch.bmm(G.mT, self.columns))

    @property
    def _flat(self) -> Tensor:
        return self.columns.view(-1, self.columns.shape[2])

    def forward(self, stack: Stack) -> Tensor:
        return self._flat.T @ stack.reshape(-1, stack.shape[2])

    def adjoint(self, residual: Tensor) -> Stack:
        return (self._flat @ residual).view(*self.columns.shape[:2], -1)

    def kernel(self, weight: Tensor) -> Tensor:
        B = (self.columns * weight.sqrt()[:, :, None]).view(self._flat.shape)
        return B.T @ B

    def slopes(self, a: Stack) -> Tensor:
        if self.m == 1 and a.shape[2] == 1:
            return torch.bmm(a.mT, self.columns).transpose(0, 1)
        i, j = torch.triu_indices(self.m, self.m)
        # E = (e_i e_jᵀ + e_j e_iᵀ)/√2, and e_i e_iᵀ
        size = torch.where(i == j, 0.5, 0.5**0.5).to(a.dtype)
        by_output = a.permute(2, 0, 1)[..., None]  # (q, P, p, 1)
        out = a.new_empty(a.shape[2], a.shape[0], len(i), self.columns.shape[2])
        torch.mul(self.columns[:, i], by_output[:, :, j] * size[:, None], out=out)
        out.addcmul_(self.columns[:, j], by_output[:, :, i] * size[:, None])
        return out.view(a.shape[2], -1, self.columns.shape[2])


@dataclass(frozen=True)
class KernelRows:
    """One output, m = 1: the operator itself, and the rows and gates it is made of.  root (n, 1): √w.  gram: √w XXᵀ √w.
    g (P,): the scale of each gate.  free: a free intercept's direction."""

    operator: Operator
    gated: GatedRows
    root: Tensor
    gram: Tensor
    g: Tensor
    free: Tensor | None = None

    def scaled(self, G: Tensor) -> KernelRows:
        return replace(self, g=G[:, 0, 0])

    def forward(self, stack: Stack) -> Tensor:
        return without(self.free, self.root * self.operator.forward(stack * self.g[:, None, None]))

    def adjoint(self, residual: Tensor) -> Stack:
        return self.operator.adjoint(self.root * without(self.free, residual)) * self.g[:, None, None]

    def kernel(self, weight: Tensor) -> Tensor:
        D = self.gated.pattern * (weight[:, 0].sqrt() * self.g)
        kernel = (D @ D.T).mul_(self.gram)
        return kernel if self.free is None else without(self.free, without(self.free, kernel).T)

    def slopes(self, a: Stack) -> Tensor:
        hidden = (a[:, :, 0] * self.g[:, None]) @ self.gated.X.T  # (P, n)
        return without(self.free, hidden.mul_(self.gated.pattern.T).mul_(self.root[:, 0]).T).T[None]


@dataclass(frozen=True)
class Fit:
    """½‖target − Σ_k M_k Z_k‖² up to a constant: the squared loss with weights and rotation taken in."""

    rows: Rows
    target: Tensor
    root: Tensor
    rotation: Tensor | None  # Q (n, P·p)
    free: Tensor | None = None  # the direction (n,) of a free intercept

    def residual(self, prediction: Tensor) -> Tensor:
        """The residual of a prediction (n, q) of the program, as ``target`` sees it."""
        weighted = without(self.free, self.root * prediction)
        return self.target - (weighted if self.rotation is None else self.rotation.T @ weighted)

    def gradient(self, W: Tensor, loss_target: Tensor) -> Tensor:
        """∇L (n, q) where the residual, as ``target`` sees it, is W."""
        if self.rotation is None:
            return -self.root * W
        return self.root * (self.rotation @ (self.target - W) - self.root * loss_target)


def without(direction: Tensor | None, columns: Tensor) -> Tensor:
    """Columns (n, ·) without their part along a unit vector (n,), if there is one."""
    return columns if direction is None else columns - direction[:, None] * (direction @ columns)


def block_size(operator: Operator) -> int:
    """m, the side of the unknown blocks: the right form for one output, else the left form."""
    return 1 if operator.q == 1 else operator.p


def prepare(program: Program, left: bool = False) -> Fit:
    """``left``: in the left form, for one output too."""
    op, gated = program.operator, program.operator.gated_rows
    assert gated is not None
    root = program.loss.sample_weight.sqrt()[:, None]
    free = root[:, 0] / torch.linalg.vector_norm(root) if program.loss.free else None
    X, target = root * gated.X, without(free, root * program.loss.plain.target)
    size = op.n_gates * op.p
    if op.q == 1 and len(X) <= size and not left:
        return Fit(KernelRows(op, gated, root, X @ X.T, X.new_ones(op.n_gates), free), target, root, None, free)
    columns = (gated.pattern.T[:, None, :] * X.T).contiguous()  # (P, p, n)
    if free is not None:
        columns = columns - (columns @ free)[:, :, None] * free
    rotation = None
    if len(X) > size:
        rotation, triangle = torch.linalg.qr(columns.view(size, -1).T)
        columns, target = triangle.T.reshape(op.n_gates, op.p, size), rotation.T @ target
    return Fit(DenseRows(columns, op.p if left else block_size(op)), target, root, rotation, free)
