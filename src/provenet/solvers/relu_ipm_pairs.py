"""Pairs (gate, sign) of a ReLU program with one output: what the interior point knows of the data.

A neuron behind gate k with second layer of sign s = ±1 is a vector u with K_k u ≥ 0; it adds s·A_k u to the prediction
(CP eq. 9).  All gates share the rows of Φ, so every product over pairs is one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from provenet.cones import Cones
from provenet.operators import MLPOperator, Operator
from provenet.problem import Program


@dataclass(frozen=True)
class Table:
    """The cones' rows without zeros and doubles: rows (N, p) of unit length, signs (P, N), inside (P, p)."""

    cones: Cones

    @staticmethod
    def of(cones: Cones) -> Table:
        alive = torch.nonzero(torch.linalg.vector_norm(cones.rows, dim=1) > 0).flatten()
        _, which = torch.unique(cones.rows[alive], dim=0, return_inverse=True)
        first = torch.full((int(which.max()) + 1 if len(which) else 0,), len(alive), dtype=torch.long)
        first.scatter_reduce_(0, which, torch.arange(len(alive)), "amin")
        keep = alive[first]
        return Table(Cones(cones.rows[keep], cones.signs[:, keep], cones.inside))

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
    """gate (J,), sign (J,) ±1 of the working set.  columns (J, p, n): s·A_kᵀ.  sides (J, N): the cones' signs."""

    gate: Tensor
    sign: Tensor
    columns: Tensor
    sides: Tensor
    rows: Tensor

    @staticmethod
    def of(program: Program, table: Table, gate: Tensor, sign: Tensor) -> Pairs:
        columns = _columns(program.operator, gate).mul_(sign[:, None, None])
        return Pairs(gate, sign, columns, table.cones.signs[gate], table.rows)

    def __len__(self) -> int:
        return len(self.gate)

    def forward(self, u: Tensor) -> Tensor:
        """The prediction (n,) of u (J, p)."""
        return u.reshape(-1) @ self.columns.view(-1, self.columns.shape[2])

    def adjoint(self, theta: Tensor) -> Tensor:
        """(J, p) from (n,)."""
        return (self.columns.view(-1, self.columns.shape[2]) @ theta).view(self.columns.shape[:2])

    def slack(self, u: Tensor) -> Tensor:
        """K u, (J, N)."""
        return (u @ self.rows.T).mul_(self.sides)

    def pushed(self, multipliers: Tensor) -> Tensor:
        """Kᵀλ, (J, p)."""
        return (multipliers * self.sides) @ self.rows

    def select(self, keep: Tensor) -> Pairs:
        return Pairs(self.gate[keep], self.sign[keep], self.columns[keep], self.sides[keep], self.rows)

    def joined(self, other: Pairs) -> Pairs:
        parts = (torch.cat([a, b]) for a, b in zip(self._parts(), other._parts(), strict=True))
        return Pairs(*parts, self.rows)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.gate, self.sign, self.columns, self.sides


def _columns(operator: Operator, gates: Tensor) -> Tensor:
    """A_kᵀ (J, p, n) of some gates."""
    if isinstance(operator, MLPOperator):
        return (operator.pattern.T[gates][:, None, :] * operator.X.T).contiguous()
    out = torch.empty(len(gates), operator.p, operator.kernel_rows, dtype=operator.dtype)
    unit = torch.eye(operator.p, dtype=operator.dtype)[:, None, :, None]
    for j in range(len(gates)):
        one = operator.restrict(gates[j : j + 1])
        for i in range(operator.p):
            out[j, i] = one.forward(unit[i]).reshape(-1)
    return out
