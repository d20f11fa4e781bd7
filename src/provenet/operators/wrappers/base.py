"""An operator around another: its stacks are mapped to the other's, and all else is the other's."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Backward, Operator
from provenet.variable import Factors, Stack


class Wrapper(Operator):
    """A(Z) = A'(T Z), ``inner`` A' and T linear, the identity unless overridden (`lowered`, `_lowered_stack` and their
    transposes); predictions of A' are only shaped anew, where ``output_shape`` is another.

    What is asked of A beyond products is answered by A', as is right for a T with T Tᵀ = I; others override it.
    """

    def __init__(self, inner: Operator):
        self.inner, self.space = inner, inner.space
        self.n_gates, self.p, self.q = inner.stack_shape
        self.output_shape = inner.output_shape

    @property
    def has_kernel(self) -> bool:  # type: ignore[override]
        return self.inner.has_kernel

    def _lowered_stack(self, stack: Stack) -> Stack:
        """T Z."""
        return stack

    def _raised_stack(self, slope: Stack) -> Stack:
        """Tᵀ G."""
        return slope

    def lowered(self, factors: Factors) -> Factors:
        """The neurons of Z as neurons of T Z."""
        return factors

    def _raised(self, left: Tensor, right: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        """(Tᵀ G)v and (Tᵀ G)ᵀu of neurons (u, v), from G v' and Gᵀu' of the lowered ones."""
        return left, right

    def forward(self, stack: Stack) -> Tensor:
        return self.inner.forward(self._lowered_stack(stack)).view(self.output_shape)

    def adjoint(self, residual: Tensor) -> Stack:
        return self._raised_stack(self.inner.adjoint(self._flat(residual)))

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.inner.forward_factors(self.lowered(factors)).view(self.output_shape)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        left, right = self.inner.adjoint_factors(self._flat(residual), self.lowered(factors))
        return self._raised(left, right, factors)

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        prediction, back = self.inner.both_ways(self.lowered(factors))
        return prediction.view(self.output_shape), lambda residual: self._raised(*back(self._flat(residual)), factors)

    def _flat(self, residual: Tensor) -> Tensor:
        """As predictions of the inner operator are shaped."""
        return residual.reshape(self.inner.output_shape)

    def kernel(self) -> Tensor:
        return self.inner.kernel()

    def norm_upper(self) -> float:
        return self.inner.norm_upper()

    def rounding(self, residual: Tensor) -> float:
        return self.inner.rounding(self._flat(residual))

    @property
    def held_bytes(self) -> int:
        return self.inner.held_bytes

    @property
    def read_bytes(self) -> int:
        return self.inner.read_bytes

    def part(self, samples: Tensor) -> Self | None:
        each = self.inner.output_shape[0] // self.output_shape[0]  # rows of A' that a sample of A has
        rows = (samples[:, None] * each + self.space.arange(each)).flatten()
        inner = self.inner.part(rows)
        return None if inner is None else self._with(inner=inner, output_shape=(len(samples), *self.output_shape[1:]))

    def restrict(self, gates: Tensor) -> Self:
        return self._with(inner=self.inner.restrict(gates), n_gates=len(gates))
