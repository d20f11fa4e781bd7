"""Token blocks whose arrangement matrix is a table of rows: PoolFormer, FNet, any h(X) (AT eq. 158–160).

Φ_i = h(X_i) (s, p), and each hidden value h_t = Φ_i[t] u has its own output h_t v.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from provenet.operators.bases.base import Operator
from provenet.operators.bases.batched import BatchedOperator
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.blocks.mlp import MLPOperator
from provenet.variable import Factors, Stack

Transform = Callable[[Tensor], Tensor]
_TRANSFORM_DEPTH = 100  # roundings of h itself, in units of eps·‖h(X_i)‖


class TokenMeanOperator(PooledOperator):
    """Readout ``mean``: A(Z)_i = (1/s) Σ_k Σ_t D_k[i, t] Φ_i[t] Z_k.

    transform: X (b, s, d) ↦ Φ (b, s, p).  growth: ‖Φ_i[t]‖ is at most so many times ‖X_i‖_F.
    """

    def __init__(
        self,
        X: Tensor,
        patterns: Tensor | None,
        outputs: int,
        transform: Transform,
        growth: float,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ):
        self.transform, self.growth = transform, growth
        super().__init__(X, patterns, scale, dtype)
        self.s, self.p = self.batch(slice(0, 1)).shape[1:]
        self.q = self.outputs = outputs
        self.output_shape = (self.n, outputs)

    def prepare(self, x: Tensor) -> Tensor:
        return self.transform(x)

    def features(self, rows: slice) -> Tensor:
        x = self.batch(rows)
        if self.patterns is None:
            return x.mean(1)[:, None, None]
        weight = self.patterns[:, rows].transpose(0, 1).to(self.dtype).div_(self.s)  # (b, P, s)
        return torch.bmm(weight, x).unsqueeze(2)

    def pooled(self, rows: slice, factors: Factors) -> Tensor:
        hidden = _hidden(self.batch(rows), factors, self.opened(rows, factors.gate))
        return hidden.mean(2).T.unsqueeze(2)

    def neuron_numbers(self) -> int:
        return 2 * self.s

    def sample_sizes(self) -> Tensor:
        return self.growth * input_sizes(self)

    @property
    def depth(self) -> int:
        return 2 * self.s + _TRANSFORM_DEPTH


class TokenRowsOperator(Operator):
    """Readout ``tokens``: A(Z)_it = Σ_k D_k[i, t] Φ_i[t] Z_k, an MLP's operator on n·s rows."""

    has_kernel = True

    def __init__(self, rows: MLPOperator, sizes: Tensor):
        self.rows, self.sizes, self.n = rows, sizes, len(sizes)
        n = self.n
        self.n_gates, self.p, self.q = rows.stack_shape
        self.output_shape = (n, rows.n // n, rows.q)
        self.dtype = rows.dtype

    @classmethod
    def of(
        cls,
        X: Tensor,
        patterns: Tensor | None,
        outputs: int,
        transform: Transform,
        growth: float,
        scale: float = 1.0,
    ) -> TokenRowsOperator:
        sizes = growth * torch.linalg.vector_norm(X.flatten(1), dim=1, dtype=torch.float64) / scale
        phi = transform(X.to(torch.float64) / scale)  # (n, s, p)
        n, s, p = phi.shape
        pattern = torch.ones(n * s, 1, dtype=torch.bool) if patterns is None else patterns.flatten(1).T
        return cls(MLPOperator(phi.reshape(n * s, p), pattern, outputs), sizes)

    def _flat(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(-1, self.q)

    def forward(self, stack: Stack) -> Tensor:
        return self.rows.forward(stack).view(self.output_shape)

    def adjoint(self, residual: Tensor) -> Stack:
        return self.rows.adjoint(self._flat(residual))

    def forward_factors(self, factors: Factors) -> Tensor:
        return self.rows.forward_factors(factors).view(self.output_shape)

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self.rows.adjoint_factors(self._flat(residual), factors)

    def norm_upper(self) -> float:
        return self.rows.norm_upper()

    def rounding(self, residual: Tensor) -> float:
        by_sample = torch.linalg.vector_norm(residual.flatten(1), dim=1)
        total = float((self.sizes.to(self.dtype) * by_sample).sum())
        return self.rows.rounding(self._flat(residual)) + _TRANSFORM_DEPTH * torch.finfo(self.dtype).eps * total

    def kernel(self) -> Tensor:
        return self.rows.kernel()

    def reduced(self) -> tuple[Operator, Tensor] | None:
        reduced = self.rows.reduced()
        return None if reduced is None else (TokenRowsOperator(reduced[0], self.sizes), reduced[1])

    def restrict(self, gates: Tensor) -> TokenRowsOperator:
        return TokenRowsOperator(self.rows.restrict(gates), self.sizes)

    def to(self, dtype: torch.dtype) -> TokenRowsOperator:
        return self if dtype == self.dtype else TokenRowsOperator(self.rows.to(dtype), self.sizes)


def _hidden(x: Tensor, factors: Factors, opened: Tensor | None) -> Tensor:
    """D Φ u for every neuron, (N, b, s), for Φ = x (b, s, p)."""
    hidden = (factors.left @ x.flatten(0, 1).T).view(-1, *x.shape[:2])
    return hidden if opened is None else hidden * opened


def input_sizes(operator: BatchedOperator) -> Tensor:
    """‖X_i‖_F of every sample's input, before `prepare`, (n,)."""
    parts = operator._source.flatten(1).split(1024)  # some at a time: each is copied to float64
    sizes = torch.cat([torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts])
    return sizes.to(operator.dtype) / operator._scale
