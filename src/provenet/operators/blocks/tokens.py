"""Token blocks whose arrangement matrix is a table of rows: PoolFormer, FNet, any h(X) (AT eq. 158–160).

Φ_i = h(X_i) (s, p), and each hidden value h_t = Φ_i[t] u has its own output h_t v.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from typing_extensions import Self

from provenet.operators.bases.base import Operator
from provenet.operators.bases.pooled import PooledOperator
from provenet.operators.blocks.mlp import MLPOperator
from provenet.operators.wrappers.base import Wrapper
from provenet.variable import Factors

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
    ):
        self.transform, self.growth = transform, growth
        super().__init__(X, patterns, scale)
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
        return self.growth * self.input_sizes()

    @property
    def depth(self) -> int:
        return 2 * self.s + _TRANSFORM_DEPTH


class TokenRowsOperator(Wrapper):
    """Readout ``tokens``: A(Z)_it = Σ_k D_k[i, t] Φ_i[t] Z_k, an MLP's operator on n·s rows, shaped as tokens.

    sizes (n,): bounds of ‖Φ_i[t]‖ for every t.
    """

    def __init__(self, rows: MLPOperator, sizes: Tensor):
        super().__init__(rows)
        self.sizes = sizes
        self.output_shape = (len(sizes), rows.n // len(sizes), rows.q)

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
        pattern = phi.new_ones(n * s, 1, dtype=torch.bool) if patterns is None else patterns.flatten(1).T
        return cls(MLPOperator(phi.reshape(n * s, p), pattern, outputs), sizes)

    def rounding(self, residual: Tensor) -> float:
        by_sample = torch.linalg.vector_norm(residual.flatten(1), dim=1)
        total = float((self.sizes * by_sample).sum())
        return super().rounding(residual) + _TRANSFORM_DEPTH * torch.finfo(self.dtype).eps * total

    def part(self, samples: Tensor) -> Self | None:
        other = super().part(samples)
        return None if other is None else other._with(sizes=self.sizes[samples])

    @property
    def axis_rows(self) -> Tensor | None:
        return self.inner.axis_rows

    def turned(self, basis: Tensor) -> TokenRowsOperator:
        return self._with(inner=self.inner.turned(basis))

    def reduced(self) -> tuple[Operator, Tensor] | None:
        reduced = self.inner.reduced()
        return None if reduced is None else (self._with(inner=reduced[0], p=reduced[0].p), reduced[1])


def _hidden(x: Tensor, factors: Factors, opened: Tensor | None) -> Tensor:
    """D Φ u for every neuron, (N, b, s), for Φ = x (b, s, p)."""
    hidden = (factors.left @ x.flatten(0, 1).T).view(-1, *x.shape[:2])
    return hidden if opened is None else hidden * opened
