"""A loss with a free intercept: L̃(Ŷ) = min_b L(Ŷ + 1bᵀ), one b (c,) for all rows, without any penalty.

It is convex, and smooth where L is: its gradient is ∇L at the best b, its Hessian the Schur complement
H − H1(1ᵀH1)⁻¹1ᵀH, its conjugate L*(Θ) where 1ᵀΘ = 0 and +∞ elsewhere.  So operators and gauges need not know of b.

Dual points that prove a bound have columns that sum to zero exactly (`losses.balance`): for those, scaled by any τ,

    L(AZ + 1bᵀ) + βγ(Z) ≥ ⟨τΘ, AZ + 1bᵀ⟩ − L*(τΘ) + βγ(Z) ≥ −L*(τΘ)   for every Z and every b, however large.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from provenet import deadline
from provenet.losses.balance import is_balanced
from provenet.losses.base import Loss, Shiftable
from provenet.losses.quick import Array
from provenet.ranks import Whole

_OFF = 1e-9  # of the sum of the sizes: what a column's sum may be for the conjugate to be a number
_STEPS = 100


class Free(Loss):
    """``plain`` after the best constant; ``there`` (n, …): which rows have it, None: all; the loss is zero elsewhere.

    Targets that lie close together, far from zero, are taken without what they share (`centre`): b gives it back.
    """

    free = True
    remembered = ("_last",)
    _last: tuple[Tensor, int, Tensor] | None = None  # a prediction, its version, and the best b there

    def __init__(self, plain: Shiftable, there: Tensor | None = None):
        super().__init__(plain.target, plain.sample_weight)
        self.name, self.quadratic, self.kink, self.curvature = plain.name, plain.quadratic, plain.kink, plain.curvature
        self._given, self.there = plain, there
        flat = plain.flat(there)
        self.offset = self._centre(flat)
        self._flat = flat.with_data(flat.target - self.offset, flat.sample_weight)
        self._plain = plain.with_data(self._taken(self.target, self.offset), plain.sample_weight)
        self._zero = self.target.new_zeros(self.target.shape[-1])

    def _centre(self, flat: Shiftable) -> Tensor:
        return flat.centre()

    def _shift(self, rows: Tensor, start: Tensor) -> Tensor:
        """The best b (c,) for predictions (r, c), without what targets share."""
        return self._flat.shift(rows, start)

    @property
    def plain(self) -> Loss:
        return self._plain

    @property
    def shards(self) -> Whole:
        return self._plain.shards

    def pieces(self, values: Tensor) -> list[Tensor]:
        return self._plain.pieces(values)

    def forgetful(self) -> Free:
        return self._with()

    @property
    def guess(self) -> Tensor | None:
        return None if self._last is None else self._last[2]

    def begin_at(self, guess: Tensor) -> None:
        self._last = self._zero, -1, guess

    @cached_property
    def _present(self) -> Tensor | None:
        """The numbers of the rows that have the constant, (r,): found once, as the host waits for how many."""
        return None if self.there is None else torch.nonzero(self.there.reshape(-1)).flatten()

    def _rows(self, values: Tensor) -> Tensor:
        """(n, …, c) → (r, c)."""
        rows = values.reshape(-1, values.shape[-1])
        return rows if self._present is None else rows[self._present]

    def _taken(self, values: Tensor, constant: Tensor) -> Tensor:
        """Values (n, …, c) without a constant (c,), where there is one."""
        return values - (constant if self.there is None else self.there.unsqueeze(-1) * constant)

    def _best(self, prediction: Tensor) -> Tensor:
        """argmin_b L(Ŷ + 1bᵀ), without what targets share; differentiable where the prediction is."""
        last = self._last
        if last is not None and last[0] is prediction and last[1] == prediction._version:
            return last[2]
        with torch.no_grad():
            start = self._zero if last is None else last[2]
            b = self._shift(self._rows(prediction.detach()), start)
        if prediction.requires_grad and torch.is_grad_enabled():  # Newton's step: zero, but it carries ∂b/∂Ŷ
            rows = self._rows(prediction)
            slope = self._flat.gradient(rows + b).sum(0)
            return b - (slope - slope.detach()) @ self._inverse(rows.detach() + b)
        self._last = prediction, prediction._version, b
        return b

    def _inverse(self, rows: Tensor) -> Tensor:
        """(κI + 1ᵀH1)⁻¹ (c, c) where it can be inverted."""
        matrix = self._flat.across(rows)
        matrix = matrix + self.cost * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
        return torch.linalg.pinv((matrix + matrix.T) / 2, hermitian=True, rtol=1e-14)

    def intercept(self, prediction: Tensor) -> Tensor:
        """The best b (c,) of a network with this prediction: the same to the last digit, whatever was asked before."""
        with torch.no_grad():
            return self._shift(self._rows(prediction.detach()), self._zero) + self.offset

    def value(self, prediction: Tensor) -> Tensor:
        return self._flat.value(self._rows(prediction) + self._best(prediction))

    def value_at(self, prediction: Tensor, intercept: Tensor | None) -> Tensor:
        b = self._zero if intercept is None else intercept
        return self._flat.value(self._rows(prediction) + (b - self.offset))

    def gradient_at(self, prediction: Tensor, intercept: Tensor | None) -> Tensor:
        b = self._zero if intercept is None else intercept
        return self._plain.gradient(self._taken(prediction, self.offset - b))

    def in_columns(self, prediction: Array, intercept: Array | None) -> tuple[float, Array]:
        if self.there is not None or self.cost:
            return super().in_columns(prediction, intercept)
        b = self._zero.numpy() if intercept is None else intercept
        return self._plain.in_columns(prediction, b - self.offset.numpy())

    @property
    def constant(self) -> Tensor:
        rows = self.target.shape[:-1]
        return (self.target.new_ones(rows) if self.there is None else self.there.to(self.target.dtype)).reshape(-1)

    def at_best(self, prediction: Tensor) -> Tensor:
        return self._taken(prediction, -self._best(prediction))

    def gradient(self, prediction: Tensor) -> Tensor:
        return self._plain.gradient(self.at_best(prediction))

    def dual_at(self, prediction: Tensor) -> Tensor:
        return self._balanced(self.gradient(prediction))

    def admissible(self, dual: Tensor) -> Tensor:
        inside = self._plain.admissible(dual)
        moved = self.shards.largest(float(not torch.equal(inside, dual)))
        return dual if not moved and self._is_balanced(dual) else self._balanced(inside)

    def _is_balanced(self, dual: Tensor) -> bool:
        return is_balanced(*self._flat.pieces(self._rows(dual)), shards=self.shards)

    def _balanced(self, dual: Tensor) -> Tensor:
        rows = self._flat.balanced(self._rows(dual))
        return self._full(rows).view_as(dual)

    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        at = self._rows(prediction) + self._best(prediction)
        plain = self._plain.hessian_product(self.at_best(prediction), direction)
        rows = tuple(range(plain.ndim - self.target.ndim, plain.ndim - 1))
        share = self.shards.add(part.sum(rows) for part in self.pieces(plain)) @ self._inverse(at)  # (…, c)
        back = self._flat.hessian_product(at, share[..., None, :].expand(*share.shape[:-1], *at.shape))
        return plain - self._full(back).view_as(plain)

    def _full(self, rows: Tensor) -> Tensor:
        """(…, r, c) → (…, all rows, c), zero where there is none."""
        if self.there is None:
            return rows
        full = rows.new_zeros(*rows.shape[:-2], self.there.numel(), rows.shape[-1])
        full[..., self._present, :] = rows
        return full

    def local_curvature(self, prediction: Tensor) -> Tensor:
        return self._plain.local_curvature(self.at_best(prediction))

    def conjugate(self, dual: Tensor) -> Tensor:
        pieces = self._flat.pieces(self._rows(dual.detach()))
        off, size = (self.shards.add(part.sum(0) for part in each) for each in (pieces, [p.abs() for p in pieces]))
        if not bool((off.abs() <= _OFF * size).all()):
            return dual.new_tensor(float("inf"))
        return self._plain.conjugate(dual)

    def dual_scale(self, dual: Tensor, largest: float) -> float:
        # of a Θ that is not balanced no multiple but zero proves anything
        return self._plain.dual_scale(dual, largest) if self._is_balanced(dual) else 0.0

    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        """min_b of the Moreau envelope of L at point + 1bᵀ: Newton for the b at which Σ ∇L = 0 at the prox of L."""
        pull = torch.as_tensor(step, dtype=point.dtype).expand(self.weight.shape).expand(*point.shape[:-1], 1)
        rows, steps = self._rows(point), self._rows(pull.expand_as(point))[:, :1]
        eye = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
        b = self._shift(rows, self._zero)
        moved = self._flat.prox(rows + b, steps)
        slope = self._flat.gradient(moved).sum(0) + self.cost * b
        for _ in range(_STEPS):
            if deadline.over():
                break
            bent = self._flat.hessian_product(moved, eye[:, None, :].expand(len(eye), *rows.shape)).permute(1, 0, 2)
            envelope = torch.linalg.solve(eye + steps[:, :, None] * bent, bent).sum(0) + self.cost * eye
            move = torch.linalg.pinv((envelope + envelope.T) / 2, hermitian=True, rtol=1e-14) @ -slope
            size, length = float(slope.abs().sum()), 1.0
            for _ in range(30):
                ahead = self._flat.prox(rows + (b + length * move), steps)
                there = self._flat.gradient(ahead).sum(0) + self.cost * (b + length * move)
                if float(there.abs().sum()) < size:
                    break
                length /= 2
            else:
                break
            b, moved, slope = b + length * move, ahead, there
        return self._taken(self._plain.prox(self._taken(point, -b), step), b)

    def _again(self, plain: Shiftable, there: Tensor | None) -> Free:
        """The same kind of intercept with another loss."""
        return Free(plain, there)

    def with_data(self, target: Tensor, weight: Tensor | None) -> Free:
        there = self.there if self.there is not None and len(self.there) == len(target) else None
        return self._again(self._given.with_data(target, weight), there)

    def alone(self, target: Tensor, weight: Tensor, there: Tensor | None) -> Free:
        plain = self._given.alone(target, weight, there)
        assert isinstance(plain, Shiftable)
        return self._again(plain, None if self.there is None else there)

    def part(self, some: Tensor) -> Free:
        given = self._given.with_data(self.target[some], self.sample_weight[some])
        return self._again(given, None if self.there is None else self.there[some])

    def settings(self) -> dict[str, object]:
        return self._given.settings()

    def normalised(self) -> tuple[Loss, float]:
        scale = self._flat.normalised()[1]
        if scale == 1.0:
            return self, 1.0
        return self._again(self._given.scaled(scale), self.there), scale

    def smoothness(self) -> float:
        return self._plain.smoothness()
