"""Blocks whose features and outputs fall into groups, each with an operator of its own (AT Lemma 4.6, Thm 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from provenet.operators.bases.base import Backward, Operator
from provenet.operators.wrappers.repeated import RepeatedOperator
from provenet.variable import Factors, Stack


@dataclass(frozen=True)
class Part:
    """A group: its operator, the gates of the whole stack it has, in its own order, and the output columns it fills."""

    operator: Operator
    gates: Tensor
    columns: slice


class GroupedOperator(Operator):
    """Ŷ = [A_1(Z_1) … A_B(Z_B)]: group b's gates into group b's outputs; those of a group without gates are zero.

    Neither weights nor outputs are shared, so norms and roundings are the largest of the groups'.  A kernel would
    differ from one group of columns to the next; it exists where there is one group only.
    """

    remembered = ("_members",)
    _members: tuple[Tensor, list[tuple[Tensor, Tensor]]] | None = None

    def __init__(self, parts: Sequence[Part], outputs: int):
        first = parts[0].operator
        self.parts, self.n_gates = tuple(parts), sum(len(part.gates) for part in parts)
        self.p, self.q, self.space = first.p, first.q, first.space
        self.output_shape = (*first.output_shape[:-1], outputs)
        self.has_kernel = first.has_kernel and first.output_shape == self.output_shape

    def _filled(self, outputs: Sequence[Tensor]) -> Tensor:
        out = self.space.zeros(*self.output_shape)
        for part, output in zip(self.parts, outputs, strict=True):
            out[..., part.columns] = output
        return out

    def forward(self, stack: Stack) -> Tensor:
        return self._filled([part.operator.forward(stack[part.gates]) for part in self.parts])

    def adjoint(self, residual: Tensor) -> Stack:
        stack = self.new_stack()
        for part in self.parts:
            stack[part.gates] = part.operator.adjoint(self._columns(residual, part))
        return stack

    def _columns(self, residual: Tensor, part: Part) -> Tensor:
        return residual[..., part.columns].contiguous()

    def _split(self, factors: Factors) -> list[tuple[Tensor, Factors]]:
        """For every part, which neurons are its own, and them, with gates counted as the part counts them."""
        if self._members is None or self._members[0] is not factors.gate:  # steps ask with one and the same tensor
            self._members = factors.gate, self._found(factors.gate)
        return [(own, Factors(factors.left[own], factors.right[own], gate)) for own, gate in self._members[1]]

    def _found(self, gate: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For every part, the neurons behind its gates, and their gates as it counts them."""
        group, place = (self.space.empty(self.n_gates, dtype=torch.long) for _ in range(2))
        for b, part in enumerate(self.parts):
            group[part.gates], place[part.gates] = b, self.space.arange(len(part.gates))
        members = [torch.nonzero(group[gate] == b).flatten() for b in range(len(self.parts))]
        return [(own, place[gate[own]]) for own in members]

    def forward_factors(self, factors: Factors) -> Tensor:
        split = self._split(factors)
        return self._filled(
            [part.operator.forward_factors(own) for part, (_, own) in zip(self.parts, split, strict=True)]
        )

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = torch.empty_like(factors.left), torch.empty_like(factors.right)
        for part, (members, own) in zip(self.parts, self._split(factors), strict=True):
            left[members], right[members] = part.operator.adjoint_factors(self._columns(residual, part), own)
        return left, right

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        split = self._split(factors)
        ways = [part.operator.both_ways(own) for part, (_, own) in zip(self.parts, split, strict=True)]

        def back(residual: Tensor) -> tuple[Tensor, Tensor]:
            left, right = torch.empty_like(factors.left), torch.empty_like(factors.right)
            for part, (members, _), (_, backward) in zip(self.parts, split, ways, strict=True):
                left[members], right[members] = backward(self._columns(residual, part))
            return left, right

        return self._filled([prediction for prediction, _ in ways]), back

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        some = len(range(self.output_shape[0])[rows])
        out = self.space.zeros(factors.n_neurons, some, *self.output_shape[1:])
        for part, (members, own) in zip(self.parts, self._split(factors), strict=True):
            if len(members):
                out[..., part.columns][members] = part.operator.alone(own, rows)
        return out

    def once(self) -> GroupedOperator:
        return self._of([part.operator.once() for part in self.parts])

    def often(self) -> GroupedOperator:
        return self._of([part.operator.often() for part in self.parts])

    def kernel(self) -> Tensor:
        return self.parts[0].operator.kernel() if self.has_kernel else super().kernel()

    @property
    def narrows(self) -> bool:  # type: ignore[override]
        return all(part.operator.narrows for part in self.parts)

    def narrowed(self, gates: Tensor, basis: Tensor) -> GroupedOperator:
        parts = []
        for part in self.parts:
            own, place = torch.nonzero(gates[:, None] == part.gates, as_tuple=True)
            if len(own) > 0:
                parts.append(Part(part.operator.narrowed(place, basis[own]), own, part.columns))
        return GroupedOperator(parts, self.output_shape[-1])

    def norm_upper(self) -> float:
        return max(part.operator.norm_upper() for part in self.parts)

    def rounding(self, residual: Tensor) -> float:
        return max(part.operator.rounding(self._columns(residual, part)) for part in self.parts)

    def restrict(self, gates: Tensor) -> GroupedOperator:
        parts = []
        for part in self.parts:
            own, place = torch.nonzero(gates[:, None] == part.gates, as_tuple=True)
            if len(own) > 0:
                parts.append(Part(part.operator.restrict(place), own, part.columns))
        return GroupedOperator(parts, self.output_shape[-1])

    def part(self, samples: Tensor) -> GroupedOperator | None:
        some = [part.operator.part(samples) for part in self.parts]
        known = [operator for operator in some if operator is not None]
        return self._of(known) if len(known) == len(some) else None

    @property
    def held_bytes(self) -> int:
        return sum(part.operator.held_bytes for part in self.parts)

    @property
    def read_bytes(self) -> int:
        return sum(part.operator.read_bytes for part in self.parts)

    def _of(self, operators: Sequence[Operator]) -> GroupedOperator:
        parts = [Part(op, old.gates, old.columns) for op, old in zip(operators, self.parts, strict=True)]
        return GroupedOperator(parts, self.output_shape[-1])

    def reduced(self) -> tuple[Operator, Tensor] | None:
        """Copies that all groups share; directions that one group leaves unused another may need."""
        inner = [part.operator for part in self.parts]
        if len(inner) == 1:
            reduced = inner[0].reduced()
            return None if reduced is None else (self._of([reduced[0]]), reduced[1])
        shared = [op for op in inner if isinstance(op, RepeatedOperator) and op.copies > 1]
        if len(shared) < len(inner):
            return None
        return self._of([op.inner for op in shared]), shared[0].basis
