"""What every loss can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from provenet.losses.conjugate import Conjugate
from provenet.losses.quick import Array
from provenet.ranks import Whole
from provenet.space import Placed, Space

_CURVATURE_FLOOR = 1e-3


class Loss(Placed, ABC):
    """``L(Ŷ) = Σ_i w_i ℓ(Ŷ_i, Y_i)``: target (n, …, c), weight (n,) strictly positive.

    All methods take predictions, or dual points, of the target's shape.
    """

    name: str
    free: bool = False  # True: it is the least over a constant added to all rows, see `losses.free`
    cost: float = 0.0  # κ where that constant b costs κ/2‖b‖², see `losses.paid`
    quadratic: bool = False  # True: it is ½ Σ_i w_i ‖Ŷ_i − Y_i‖², after that constant if it is free
    measures: str = ""  # targets are measurements, and may be standardised: by "mean", or, outliers aside, "median"
    kink: float | None = None  # δ where it is that within ±δ of the target, entry by entry, and linear beyond
    curvature: float  # sup of ℓ''

    def __init__(self, target: Tensor, weight: Tensor | None = None):
        self.target = target
        self.sample_weight = target.new_ones(target.shape[0]) if weight is None else weight.to(target.dtype)
        self.weight = self.sample_weight.view(-1, *([1] * (target.ndim - 1)))

    @property
    def space(self) -> Space:
        return Space.of(self.target)

    @property
    def shards(self) -> Whole:
        """How its samples are cut, and sums over them taken."""
        return Whole(len(self.target))

    def pieces(self, values: Tensor) -> list[Tensor]:
        """Values (…, n, …, c) of the samples of each of its shards."""
        return [values]

    @abstractmethod
    def value(self, prediction: Tensor) -> Tensor:
        """L(Ŷ), a scalar."""

    @abstractmethod
    def gradient(self, prediction: Tensor) -> Tensor:
        """∇L(Ŷ)."""

    @abstractmethod
    def hessian_product(self, prediction: Tensor, direction: Tensor) -> Tensor:
        """∇²L(Ŷ)·direction, row by row."""

    @abstractmethod
    def conjugate(self, dual: Tensor) -> Tensor:
        """L*(Θ) = sup_Ŷ ⟨Θ, Ŷ⟩ − L(Ŷ); +∞ outside its domain."""

    @abstractmethod
    def prox(self, point: Tensor, step: Tensor | float) -> Tensor:
        """argmin_Y L(Y) + Σ (Y − point)²/(2·step); ``step`` a number, or one a sample shaped like ``weight``."""

    @property
    def labels(self) -> bool:
        """Whether it is one of labels, not of numbers."""
        return not self.quadratic and self.kink is None

    @property
    def plain(self) -> Loss:
        """The loss with its intercept held, where it has a free one; itself."""
        return self

    def forgetful(self) -> Loss:
        """The same, that knows nothing of what it was asked before."""
        return self

    @property
    def guess(self) -> Tensor | None:
        """Where the next search for a free intercept begins; None where there is none."""
        return None

    def begin_at(self, guess: Tensor) -> None:
        """Let the next search for a free intercept begin there."""

    @property
    def constant(self) -> Tensor | None:
        """Where a free intercept is added: one or zero for each of the rows (rows,); None: there is no intercept."""
        return None

    def at_best(self, prediction: Tensor) -> Tensor:
        """The prediction with the best free intercept, as `plain` wants it; itself where there is none."""
        return prediction

    def value_at(self, prediction: Tensor, intercept: Tensor | None) -> Tensor:
        """L(Ŷ + 1bᵀ) for the intercept b (c,) of a network, None: L(Ŷ)."""
        return self.value(prediction if intercept is None else prediction + intercept)

    def gradient_at(self, prediction: Tensor, intercept: Tensor | None) -> Tensor:
        """The gradient of `value_at` in the prediction."""
        return self.gradient(prediction if intercept is None else prediction + intercept)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """Targets (c, n) and weights (n,), for `in_columns`."""
        return np.ascontiguousarray(self.target.numpy().T), self.sample_weight.numpy()

    def in_columns(self, prediction: Array, intercept: Array | None) -> tuple[float, Array]:
        """`value_at` and `gradient_at` of a prediction (c, n), samples last, in numpy: for trainings on small tables.
        Losses far below eps may be zero here: no proof rests on it."""
        rows, b = torch.from_numpy(prediction.T), None if intercept is None else torch.from_numpy(intercept)
        return float(self.value_at(rows, b)), self.gradient_at(rows, b).numpy().T.copy()

    def dual_at(self, prediction: Tensor) -> Tensor:
        """∇L(Ŷ) as a dual point, rounded so that what it must satisfy exactly it does."""
        return self.gradient(prediction)

    def intercept(self, prediction: Tensor) -> Tensor | None:
        """The b (c,) that a network with this prediction is to have; None where a loss has no free intercept."""
        return None

    def some(self, rows: slice) -> Loss:
        """The loss of some of this process's samples, in a row."""
        return self.plain.with_data(self.plain.target[rows], self.sample_weight[rows])

    def with_data(self, target: Tensor, weight: Tensor | None) -> Self:
        """The same loss on other targets; a loss with settings hands them on."""
        return type(self)(target, weight)

    def part(self, some: Tensor) -> Loss:
        """Of the samples with these numbers."""
        return self.with_data(self.target[some], self.sample_weight[some])

    def alone(self, target: Tensor, weight: Tensor, there: Tensor | None) -> Loss:
        """The same loss of samples that this process has all of; there (n, s): which of their tokens there are."""
        return self.with_data(target, weight)

    def settings(self) -> dict[str, Any]:
        """What distinguishes this loss from another of its name, ready for JSON: arguments of the class."""
        return {}

    def smooth_conjugate(self) -> Conjugate | None:
        """The conjugate with its derivatives, for interior methods; None where it is not written."""
        return None

    def normalised(self) -> tuple[Loss, float]:
        """(L̃, t) with L(t·Ŷ) = t²·L̃(Ŷ), t a power of four, L̃ with targets of moderate size.

        A power of four, so that neither t nor √t rounds.
        """
        scale = self.unit(self.largest_target)
        return self if scale == 1.0 else self.scaled(scale), scale

    def unit(self, largest: float) -> float:
        """The t of `normalised`, for targets up to ``largest``.  Losses of labels have no scale."""
        return 1.0

    @property
    def largest_target(self) -> float:
        """The largest |Y|."""
        return float(self.target.abs().max()) if self.target.numel() else 0.0

    @property
    def largest_weight(self) -> float:
        return float(self.sample_weight.max())

    def divided(self, weight: float) -> Loss:
        """L/weight."""
        return self.with_data(self.target, self.sample_weight / weight)

    def dearer(self, ratio: float) -> Loss:
        """The same where β is ``ratio`` times as large: what a loss has in it of the penalty is, too."""
        return self

    def scaled(self, scale: float) -> Self:
        """L̃ with L(scale·Ŷ) = scale²·L̃(Ŷ), for losses that have a scale."""
        return self.with_data(self.target / scale, self.sample_weight)

    def dual_scale(self, dual: Tensor, largest: float) -> float:
        """A τ in [0, largest] for which −L*(τΘ) is large.  Any τ gives a valid bound."""
        return self.scale_by(self.dual_sums(dual), largest)

    def dual_sums(self, dual: Tensor) -> Tensor:
        """Sums over samples that `dual_scale` decides by."""
        return dual.new_zeros(0)

    def scale_by(self, sums: Tensor, largest: float) -> float:
        """`dual_scale`, by `dual_sums`."""
        return min(1.0, largest)

    def admissible(self, dual: Tensor) -> Tensor:
        """Θ without what rounding has put outside the cone that the conjugate's domain spans; Θ itself if inside."""
        return dual

    def local_curvature(self, prediction: Tensor) -> Tensor:
        """A typical eigenvalue of ℓ'' at each sample (n,): a scale for splitting methods, not a bound."""
        return torch.full_like(self.sample_weight, self.curvature)

    def _clipped_curvature(self, eigenvalue: Tensor) -> Tensor:
        """Away from zero, where a splitting method would lose its grip; (n, …) averaged to (n,)."""
        flat = eigenvalue.reshape(eigenvalue.shape[0], -1).mean(1)
        return flat.clamp(_CURVATURE_FLOOR * self.curvature, self.curvature)

    def smoothness(self) -> float:
        """The Lipschitz constant of ∇L."""
        return self.curvature * self.largest_weight


class Shiftable(Loss):
    """A loss that can have a free intercept."""

    def flat(self, there: Tensor | None) -> Shiftable:
        """Of the rows (r, c) of targets (n, …, c), each on its own; there (n, …): of these alone."""
        each = self.weight.expand(*self.target.shape[:-1], 1).reshape(-1)
        target = self.target.reshape(-1, self.target.shape[-1])
        chosen = slice(None) if there is None else there.reshape(-1)
        return self.with_data(target[chosen], each[chosen])

    def centre(self) -> Tensor:
        """A constant (c,) that can be taken off all targets without rounding, and leaves smaller ones; or zeros."""
        return self.target.new_zeros(self.target.shape[-1])

    @abstractmethod
    def shift(self, prediction: Tensor, start: Tensor) -> Tensor:
        """argmin_b L(Ŷ + 1bᵀ) (c,), for a prediction (r, c); ``start`` is a guess."""

    def across(self, prediction: Tensor) -> Tensor:
        """1ᵀ∇²L(Ŷ)1 (c, c) for a prediction (r, c): how its slope Σ ∇L changes with a constant.  As written here, of
        losses that take entries apart."""
        return torch.diag(self.hessian_product(prediction, torch.ones_like(prediction)).sum(0))

    def balanced(self, dual: Tensor) -> Tensor:
        """A point next to Θ (…, c), in the conjugate's domain if Θ is, whose columns sum to zero with no rounding
        (`losses.balance`)."""
        (only,) = self.balanced_together([self], [dual], self.shards)
        return only

    @abstractmethod
    def balanced_together(self, parts: Sequence[Self], duals: Sequence[Tensor], shards: Whole) -> list[Tensor]:
        """Likewise for Θ in pieces, of each of which a loss is ``parts``; sums are over the shards of all processes."""
