"""Other penalties: ½ Σ_j (‖u_j‖_C² + ‖v_j‖_R²), the norms 1, 2 or ∞ (BM Lemma 3.1, Thm B.1, eq. 15).

The best scaling of a neuron makes it Σ_j ‖u_j‖_C ‖v_j‖_R, so the gauge is the projective norm

    ‖Z‖_D = min{Σ_j ‖u_j‖_C ‖v_j‖_R : Z = Σ_j u_j v_jᵀ},     polar  max{uᵀGv : ‖u‖_C ≤ 1, ‖v‖_R ≤ 1}.

The 1-norm ball has unit vectors for corners: with C = 1 a neuron is a row, and ‖Z‖_D = Σ_i ‖Z_i·‖_R; with R = 1 a
neuron is a column, and ‖Z‖_D = Σ_j ‖Z_·j‖_C.  (2, 2) is the nuclear norm.  The polars of (∞, ∞), (∞, 2) and (2, ∞)
are NP-hard: they go over the corners ±1 of a cube, where these are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from provenet.gauges.base import Bounds, Gauge, ProxGauge
from provenet.gauges.prox.nuclear import NuclearNorm
from provenet.space import Space
from provenet.variable import Factors, Stack

Penalty = tuple[float, float]

WEIGHT_DECAY: Penalty = (2, 2)
MOST_SIGNS = 16  # corners ±1 of a cube of this dimension can be gone over: 2¹⁵, as u and −u are one
_NORMS = (1, 2, math.inf)


def as_penalty(penalty: Any) -> Penalty:
    """(C, R), each 1, 2 or inf."""
    if not isinstance(penalty, (tuple, list)) or len(penalty) != 2 or not all(_is_norm(norm) for norm in penalty):
        raise ValueError(
            f"penalty: a pair (C, R) of norms for the first and second layer, each 1, 2 or inf, is needed, got "
            f"{penalty!r}."
        )
    first, second = (float(norm) for norm in penalty)
    return first, second


def _is_norm(norm: Any) -> bool:
    return isinstance(norm, Real) and not isinstance(norm, bool) and norm in _NORMS


def written(penalty: Penalty) -> list[int | str]:
    """The norms as JSON has them, which knows no infinity."""
    return ["inf" if norm == math.inf else int(norm) for norm in penalty]


def read_penalty(norms: Any) -> Penalty:
    """Back from `written`."""
    return as_penalty([math.inf if norm == "inf" else norm for norm in norms] if isinstance(norms, list) else norms)


def in_words(penalty: Penalty) -> str:
    """The penalty of a neuron (u, v), as formulas have it."""
    first, second = ({1.0: "₁", 2.0: "₂", math.inf: "_∞"}[float(norm)] for norm in penalty)
    return f"½(‖u‖{first}² + ‖v‖{second}²)"


def gauge_of(penalty: Penalty, p: int, q: int) -> Gauge:
    """The gauge of neurons u (p,), v (q,) under this penalty.  Of a single weight all norms are one."""
    first, second = (1.0 if p == 1 else penalty[0]), (1.0 if q == 1 else penalty[1])
    if penalty == WEIGHT_DECAY:
        return NuclearNorm()
    if 1 in (first, second):
        return LineNorm(first, second)
    corners = min((size for size, norm in ((p, first), (q, second)) if norm == math.inf), default=0)
    if corners > MOST_SIGNS:
        raise ValueError(
            f"penalty: with ({penalty[0]:g}, {penalty[1]:g}) a certificate is NP-hard; all signs are gone over for up "
            f"to {MOST_SIGNS} weights, and here a neuron has {corners}. Give one of the layers the norm 1, or both "
            "the norm 2."
        )
    return SignNorm(first, second)


@dataclass(frozen=True)
class Mixed(Gauge):
    """first, second: the norms C and R."""

    first: float
    second: float

    def within(self, basis: Tensor) -> Gauge | None:
        """Only the 2-norm is the same in every orthonormal basis."""
        return self if self.first == 2 else None

    def penalty(self, factors: Factors) -> Tensor:
        left, right = norms(factors.left, self.first), norms(factors.right, self.second)
        return 0.5 * (left.square().sum() + right.square().sum())

    def rounding(self, p: int, q: int) -> float:
        """‖u‖₂ ≤ √p‖u‖_∞, and neither the 1- nor the 2-norm is smaller than ‖u‖₂."""
        return math.sqrt((p if self.first == math.inf else 1) * (q if self.second == math.inf else 1))


class LineNorm(Mixed, ProxGauge):
    """One of the norms is 1: the sum over lines, rows for C = 1, else columns, of the other norm."""

    @property
    def _by_rows(self) -> bool:
        return self.first == 1

    @property
    def _inner(self) -> float:
        return self.second if self._by_rows else self.first

    @property
    def _dual(self) -> float:
        return dual(self._inner)

    def _lines(self, stack: Stack) -> Tensor:
        """(P, number of lines, length); its own inverse."""
        return stack if self._by_rows else stack.mT

    def values(self, stack: Stack) -> Tensor:
        return norms(self._lines(stack), self._inner).sum(1)

    def prox(self, stack: Stack, step: float) -> tuple[Stack, Tensor]:
        out = self._lines(_PROX[self._inner](self._lines(stack), step)).contiguous()
        return out, self.values(out)

    def polar(self, stack: Stack) -> Bounds:
        lines = self._lines(stack)
        largest = norms(lines, self._dual).amax(1)
        slack = 2 * (lines.shape[2] + 8) * torch.finfo(stack.dtype).eps
        return Bounds(largest * (1 - slack), largest * (1 + slack))

    def factorise(self, stack: Stack) -> Factors:
        """A neuron for each line that is not zero: the line, and the weight that is read or written there."""
        lines = self._lines(stack)
        gate, which = torch.nonzero(lines.abs().amax(2) > 0, as_tuple=True)
        root = norms(lines[gate, which], self._inner).sqrt()[:, None]
        along = lines[gate, which] / root
        corner = lines.new_zeros(len(gate), lines.shape[1])
        corner.scatter_(1, which[:, None], root)
        return Factors(corner, along, gate) if self._by_rows else Factors(along, corner, gate)


class SignNorm(Mixed):
    """An ∞-norm beside a 2- or an ∞-norm: the polar is largest at a corner of the ∞-norm's ball, a vector of signs.

    It certifies networks; value and prox have no closed form.  With weights for each vector of signs, Z = SᵀW or WS,
    it is the sum of norms over W's rows or columns (`lifted`), which solvers can take.
    """

    def by_rows(self, p: int, q: int) -> bool:
        """Whether u is the vector of signs; where both may be, the shorter."""
        return self.second != math.inf or (self.first == math.inf and p <= q)

    def lifted(self, p: int, q: int) -> LineNorm:
        """The gauge of W (BM Thm B.1 with the corners of the ∞-norm's ball for atoms)."""
        return LineNorm(1.0, self.second) if self.by_rows(p, q) else LineNorm(self.first, 1.0)

    def polar(self, stack: Stack) -> Bounds:
        by_rows = self.by_rows(*stack.shape[1:])
        lines = stack if by_rows else stack.mT
        inner = self.second if by_rows else self.first
        corners = signs(Space.of(lines), lines.shape[1])
        # one at a time: the table of sums is 2^(size − 1) times as long as a line
        each = [norms(corners @ G, dual(inner)).amax() for G in lines]
        value = torch.stack(each) if each else lines.new_zeros(0)
        # a sum of ± entries rounds by √size·‖column‖ units a term, and the polar is at least Σ‖column‖/√2 (Khintchine)
        slack = (4 * max(stack.shape[1:]) ** 2 + 8) * torch.finfo(stack.dtype).eps
        return Bounds(value * (1 - slack), value * (1 + slack))


def norms(vectors: Tensor, norm: float) -> Tensor:
    """The norms of the last axis, safe from overflow and underflow."""
    if norm != 2:
        return torch.linalg.vector_norm(vectors, norm, dim=-1)
    size = vectors.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
    return torch.linalg.vector_norm(vectors / size, dim=-1) * size[..., 0]


def dual(norm: float) -> float:
    """max{⟨g, v⟩ : ‖v‖ ≤ 1} is the dual norm of g."""
    return {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[float(norm)]


def signs(space: Space, size: int) -> Tensor:
    """All vectors of ±1 with a leading 1, (2^(size − 1), size): of u and −u one is enough."""
    bits = space.arange(2 ** (size - 1))[:, None] >> space.arange(size - 1)
    return torch.cat([space.ones(len(bits), 1), 1 - 2 * (bits & 1).to(space.dtype)], dim=1)


def _prox_one(lines: Tensor, step: float) -> Tensor:
    return lines.sign() * (lines.abs() - step).clamp_min(0)


def _prox_two(lines: Tensor, step: float) -> Tensor:
    size = norms(lines, 2)
    return lines * ((size - step).clamp_min(0) / size.clamp_min(torch.finfo(lines.dtype).tiny))[..., None]


def _prox_infinity(lines: Tensor, step: float) -> Tensor:
    """Entries are cut at the level above which there is ``step`` in sum: the largest (Σ of the k largest − step)/k."""
    falling = lines.abs().sort(dim=-1, descending=True).values
    counts = torch.arange(1, lines.shape[-1] + 1, dtype=lines.dtype, device=lines.device)
    level = ((falling.cumsum(-1) - step) / counts).amax(-1, keepdim=True).clamp_min(0)
    return torch.maximum(torch.minimum(lines, level), -level)


_PROX = {1.0: _prox_one, 2.0: _prox_two, math.inf: _prox_infinity}
