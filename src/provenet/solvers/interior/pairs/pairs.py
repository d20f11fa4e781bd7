"""Pairs (gate, sign) of a ReLU program with one output: what the interior point knows of the data.

A neuron behind gate k with second layer of sign s = ±1 is a vector u with K_k u ≥ 0; it adds s·A_k u to the prediction
(CP eq. 9).  All gates share the rows of Φ, so every product over pairs is one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from provenet.cones import Cones, Table
from provenet.operators import Operator
from provenet.problem import Program


@dataclass(frozen=True)
class DistinctRows:
    """The cones' rows without zeros and doubles: rows (N, p) of unit length, signs (P, N), inside (P, p)."""

    cones: Table

    @staticmethod
    def of(cones: Table) -> DistinctRows:
        alive = torch.nonzero(torch.linalg.vector_norm(cones.rows, dim=1) > 0).flatten()
        _, which = torch.unique(cones.rows[alive], dim=0, return_inverse=True)
        first = torch.full((int(which.max()) + 1 if len(which) else 0,), len(alive), dtype=torch.long)
        first.scatter_reduce_(0, which, torch.arange(len(alive)), "amin")
        keep = alive[first]
        return DistinctRows(Cones(cones.rows[keep], cones.signs[:, keep], cones.inside))

    @property
    def rows(self) -> Tensor:
        return self.cones.rows

    @cached_property
    def squares(self) -> Tensor:
        """Φ_r Φ_rᵀ, the upper triangle of each, (N, p(p+1)/2)."""
        i, j = self._triangle
        return self.rows[:, i] * self.rows[:, j]

    @cached_property
    def _triangle(self) -> tuple[Tensor, Tensor]:
        i, j = torch.triu_indices(self.rows.shape[1], self.rows.shape[1])
        return i, j

    def weighted(self, weight: Tensor) -> Tensor:
        """Σ_r weight_jr Φ_r Φ_rᵀ, (J, p, p): the signs cancel."""
        i, j = self._triangle
        p = self.rows.shape[1]
        out = weight.new_empty(len(weight), p, p)
        flat = weight @ self.squares
        out[:, i, j] = flat
        out[:, j, i] = flat
        return out


@dataclass(frozen=True)
class Pairs:
    """gate (J,), sign (J,) ±1 of the working set.  ``operator``: of its gates alone, place (J,) among them."""

    gate: Tensor
    sign: Tensor
    place: Tensor
    operator: Operator
    sides: Tensor  # (J, N): the signs of the cones' rows
    rows: Tensor

    @staticmethod
    def of(program: Program, table: DistinctRows, gate: Tensor, sign: Tensor) -> Pairs:
        gates, place = torch.unique(gate, return_inverse=True)
        return Pairs(gate, sign, place, program.operator.restrict(gates), table.cones.signs[gate], table.rows)

    def __len__(self) -> int:
        return len(self.gate)

    def forward(self, u: Tensor) -> Tensor:
        """The prediction (n,) of u (J, p)."""
        stack = self.operator.new_stack()
        stack[:, :, 0].index_add_(0, self.place, u * self.sign[:, None])
        return self.operator.forward(stack).reshape(-1)

    def adjoint(self, theta: Tensor) -> Tensor:
        """s·A_kᵀθ, (J, p) from (n,)."""
        stack = self.operator.adjoint(theta.view(self.operator.output_shape))
        return stack[self.place, :, 0] * self.sign[:, None]

    def slack(self, u: Tensor) -> Tensor:
        """K u, (J, N)."""
        return (u @ self.rows.T).mul_(self.sides)

    def pushed(self, multipliers: Tensor) -> Tensor:
        """Kᵀλ, (J, p)."""
        return (multipliers * self.sides) @ self.rows

    def mapped(self, left: Tensor, place: Tensor, dtype: torch.dtype) -> Tensor:
        """left_i A_kᵀ of the gates k at ``place`` (I,), (I·p, n), for left (I, p, p)."""
        op = self.operator
        if (gated := op.gated_rows) is not None:
            n = len(gated.X)
            wide = left.to(dtype).reshape(-1, op.p) @ gated.X.T.to(dtype)
            return wide.view(-1, op.p, n).mul_(gated.pattern.T[place][:, None, :].to(dtype)).view(-1, n)
        return torch.bmm(left.to(dtype), self._columns[place].to(dtype)).view(-1, op.kernel_rows)

    @cached_property
    def _columns(self) -> Tensor:
        """A_kᵀ (gates, p, n)."""
        op = self.operator
        out = op.space.empty(op.n_gates, op.p, op.kernel_rows)
        unit = op.space.eye(op.p)[:, None, :, None]
        for k in range(op.n_gates):
            one = op.restrict(torch.tensor([k]))
            for i in range(op.p):
                out[k, i] = one.forward(unit[i]).reshape(-1)
        return out
