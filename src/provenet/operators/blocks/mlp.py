"""The gated two-layer MLP: A(Z) = Σ_k D_k X Z_k (BM eq. 5; linear activation: one gate of ones)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from provenet import batches
from provenet.operators.bases.base import Backward, GatedRows, Operator
from provenet.operators.bases.features import FeatureOperator
from provenet.operators.bases.rank import is_affordable, paying_span
from provenet.space import Space
from provenet.variable import Factors, Stack


class _Tile(NamedTuple):
    """Some rows; what each neuron's gate lets through there (N, rows), None: all; and its hidden values (N, rows)."""

    rows: slice
    mask: Tensor | None
    hidden: Tensor


class MLPOperator(Operator):
    """X (n, d), pattern (n, P) of zeros and ones, c outputs; held as truth values, a byte each.

    Ŷ_ic = Σ_kf D_ik X_if Z_kfc is a contraction over two indices that share the row i.  The longer of the two goes
    into a matmul, the shorter is contracted row by row, so that nothing larger than n × min(P, d) × c exists,
    and that only in row tiles.
    """

    has_kernel = True
    narrows = True
    remembered = ("_masks",)
    _masks: tuple[Tensor, dict[tuple[int, int], Tensor]] | None = None

    def __init__(self, X: Tensor, pattern: Tensor, outputs: int):
        self.X, self.space = X.contiguous(), Space.of(X)
        self.opened = pattern.bool().contiguous()
        self.all_open = bool(self.opened.all())
        self.n, self.p = X.shape
        self.n_gates = pattern.shape[1]
        self.q = outputs
        self.output_shape = (self.n, outputs)

    def _tiles(self, width: int) -> list[slice]:
        """Slices of rows for intermediates of ``width`` numbers a row."""
        return batches.slices(self.n, width, batches.CACHE, self.dtype.itemsize)

    @property
    def _by_gate(self) -> bool:
        """Whether gates are contracted by matmul, and features row by row; or the reverse."""
        return self.n_gates >= self.p

    def _contracted(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Some rows; of the pattern and X there, the one of more columns, and the other."""
        for rows in self._tiles(min(self.n_gates, self.p) * self.q):
            pattern = self._numbers(rows)
            yield (rows, pattern, self.X[rows]) if self._by_gate else (rows, self.X[rows], pattern)

    def forward(self, stack: Stack) -> Tensor:
        by_row = stack if self._by_gate else stack.transpose(0, 1)
        flat = by_row.reshape(len(by_row), -1)
        out = self.space.empty(*self.output_shape)
        for rows, outer, inner in self._contracted():
            part = (outer @ flat).view(-1, inner.shape[1], self.q)
            if self.q == 1:
                out[rows, 0] = torch.linalg.vecdot(part[:, :, 0], inner)
            else:
                out[rows] = torch.bmm(inner.unsqueeze(1), part).squeeze(1)
        return out

    def adjoint(self, residual: Tensor) -> Stack:
        many, few = (self.n_gates, self.p) if self._by_gate else (self.p, self.n_gates)
        flat = self.space.zeros(many, few * self.q)
        for rows, outer, inner in self._contracted():
            rank_one = inner.unsqueeze(2) * residual[rows].unsqueeze(1)  # (rows, min(P, d), c)
            flat.addmm_(outer.T, rank_one.view(-1, flat.shape[1]))
        stack = flat.view(many, few, self.q)
        return stack if self._by_gate else stack.transpose(0, 1).contiguous()

    @property
    def pattern(self) -> Tensor:
        """(n, P), as numbers; kept where that is little."""
        return self.opened.to(self.dtype) if self._few is None else self._few

    @cached_property
    def _few(self) -> Tensor | None:
        return self.opened.to(self.dtype) if self._few_bytes <= batches.WAVE else None

    @property
    def _few_bytes(self) -> int:
        return self.opened.numel() * self.dtype.itemsize

    def _numbers(self, rows: slice) -> Tensor:
        """The pattern on some rows, as numbers."""
        return self.opened[rows].to(self.dtype) if self._few is None else self._few[rows]

    def forward_factors(self, factors: Factors) -> Tensor:
        out = self.space.empty(*self.output_shape)
        for rows in self._tiles(factors.n_neurons):
            out[rows] = self._hidden(factors, rows, self._mask(factors, rows)).T @ factors.right
        return out

    def adjoint_factors(self, residual: Tensor, factors: Factors) -> tuple[Tensor, Tensor]:
        return self._back(residual, factors, (self._seen(factors, rows) for rows in self._tiles(factors.n_neurons)))

    def both_ways(self, factors: Factors) -> tuple[Tensor, Backward]:
        if 2 * factors.n_neurons * self.n * self.dtype.itemsize > batches.KEPT:
            return super().both_ways(factors)
        out = self.space.empty(*self.output_shape)
        kept = []
        for rows in self._tiles(factors.n_neurons):
            kept.append(self._seen(factors, rows))
            torch.mm(kept[-1].hidden.T, factors.right, out=out[rows])
        return out, lambda residual: self._back(residual, factors, kept)

    def _back(self, residual: Tensor, factors: Factors, tiles: Iterable[_Tile]) -> tuple[Tensor, Tensor]:
        left, right = torch.zeros_like(factors.left), torch.zeros_like(factors.right)
        for rows, mask, hidden in tiles:
            back = factors.right @ residual[rows].T  # (N, rows)
            left.addmm_(back if mask is None else back.mul_(mask), self.X[rows])
            right.addmm_(hidden, residual[rows])
        return left, right

    def _seen(self, factors: Factors, rows: slice) -> _Tile:
        mask = self._kept_mask(factors, rows)
        return _Tile(rows, mask, self._hidden(factors, rows, mask))

    def alone(self, factors: Factors, rows: slice) -> Tensor:
        hidden = self._hidden(factors, rows, self._mask(factors, rows))
        return hidden.unsqueeze(2) * factors.right.unsqueeze(1)

    @property
    def axis_rows(self) -> Tensor:
        return self.X

    def turned(self, basis: Tensor) -> MLPOperator:
        return self._with(X=self.X @ basis)

    @property
    def gated_rows(self) -> GatedRows:
        return GatedRows(self.X, self.pattern)

    def _fill_first(self, right: Tensor, gate: Tensor, columns: Tensor) -> None:
        gated = self.opened.T[gate][:, None] * self.X.T  # (N, p, n)
        torch.mul(gated[..., None], right[:, None, None], out=columns)

    def _fill_second(self, left: Tensor, gate: Tensor, columns: Tensor) -> None:
        hidden = (left @ self.X.T).mul_(self.opened.T[gate])
        columns.diagonal(dim1=1, dim2=3).copy_(hidden[:, :, None])

    def _hidden(self, factors: Factors, rows: slice, mask: Tensor | None) -> Tensor:
        """D_{k(j)} X u_j on some rows, (N, rows)."""
        hidden = factors.left @ self.X[rows].T
        return hidden if mask is None else hidden.mul_(mask)

    def _mask(self, factors: Factors, rows: slice) -> Tensor | None:
        """D_{k(j)} on some rows, (N, rows); None where all is open."""
        opened = self._opened
        return None if opened is None else opened[:, rows].index_select(0, factors.gate).to(self.dtype)

    def _kept_mask(self, factors: Factors, rows: slice) -> Tensor | None:
        """`_mask`, remembered while neurons stay behind the same gates: step after step asks for it."""
        if self.all_open or 2 * factors.n_neurons * self.n * self.dtype.itemsize > batches.KEPT:
            return self._mask(factors, rows)
        if self._masks is None or self._masks[0] is not factors.gate:  # not compared: that would be read by the host
            self._masks = factors.gate, {}
        known, where = self._masks[1], (rows.start, rows.stop)
        if where not in known:
            mask = self._mask(factors, rows)
            assert mask is not None
            known[where] = mask
        return known[where]

    @cached_property
    def _opened(self) -> Tensor | None:
        """The pattern by gate (P, n); neurons are gated row by row of it."""
        return None if self.all_open else self.opened.T.contiguous()

    def kernel(self) -> Tensor:
        """The gated kernel (XXᵀ) ∘ (DDᵀ), whatever P, d and c are."""
        K, pattern = self.X @ self.X.T, self.pattern
        for rows in self._tiles(self.n):
            K[rows] *= pattern[rows] @ pattern.T
        return K

    def norm_upper(self) -> float:
        # ‖A‖² = ‖K‖₂ ≤ trace K, and as ‖Σ_k D_k X Z_k‖² ≤ max_i |{k : D_ik = 1}| · ‖X‖² ‖Z‖², ≤ (gates open at one
        # sample)·‖X‖²; each sum rounds by at most its length times eps
        together = self.opened.sum(1)
        trace = float((self.X.square().sum(1) * together).sum())
        spectral = float(torch.linalg.matrix_norm(self.X, 2)) ** 2 * float(together.max())
        return min(trace, spectral) ** 0.5 * (1 + 4 * (self.n + self.p) * torch.finfo(self.dtype).eps)

    def pull_upper(self, residual: Tensor) -> float:
        # D_k = ½(I + S_k), S_k of signs: ‖XᵀD_kR‖ ≤ ½‖XᵀR‖ + ½‖X‖‖R‖, in spectral norms; XᵀR rounds as `rounding` says,
        # RᵀR by (n + c) units of its trace
        n, c = residual.shape
        eps = torch.finfo(self.dtype).eps
        gram = residual.T @ residual
        largest = float(torch.linalg.eigvalsh(gram)[-1]) + 8 * (n + c) * eps * float(gram.trace())
        straight = float(torch.linalg.matrix_norm(self.X.T @ residual, 2)) * (1 + 8 * (self.p + c) * eps)
        half = 0.5 * (straight + self.rounding(residual) + self._largest_singular * max(largest, 0.0) ** 0.5)
        return half * (1 + 16 * eps)

    @cached_property
    def _largest_singular(self) -> float:
        """Of X, rounded up."""
        gram = self.X.T @ self.X
        eps = torch.finfo(self.dtype).eps
        largest = float(torch.linalg.eigvalsh(gram)[-1]) + 8 * (self.n + self.p) * eps * float(gram.trace())
        return max(largest, 0.0) ** 0.5 * (1 + 4 * eps)

    def rounding(self, residual: Tensor) -> float:
        eps = torch.finfo(self.dtype).eps
        return (self.n + 2) * eps * float(torch.linalg.matrix_norm(self.X.abs().T @ residual.abs()))

    def reduced(self) -> tuple[MLPOperator, Tensor] | None:
        known = "_reduced" in self.__dict__
        return self._reduced if known or is_affordable(self.X) else None

    @cached_property
    def _reduced(self) -> tuple[MLPOperator, Tensor] | None:
        basis = paying_span(self.X)
        return None if basis is None else (self._with(X=self.X @ basis, p=basis.shape[1]), basis)

    def narrowed(self, gates: Tensor, basis: Tensor) -> Operator:
        hidden = (self.X @ basis.flatten(0, 1).T).view(self.n, *basis.shape[:2])
        return FeatureOperator(hidden.mul_(self.opened[:, gates].unsqueeze(2)).unsqueeze(2), self.q)

    @property
    def held_bytes(self) -> int:
        return self.opened.nbytes + (self._few_bytes if self._few_bytes <= batches.WAVE else 0)

    @property
    def read_bytes(self) -> int:
        return self._few_bytes  # truth values become numbers on the way

    def part(self, samples: Tensor) -> Self:
        n = len(samples)
        return self._with(X=self.X[samples], opened=self.opened[samples], n=n, output_shape=(n, self.q))

    def restrict(self, gates: Tensor) -> Self:
        return self._with(opened=self.opened[:, gates].contiguous(), n_gates=len(gates))
