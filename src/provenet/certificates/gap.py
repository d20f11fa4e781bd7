"""The duality gap of any point (maths: dual CP (11)(78), AT (38))."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from provenet.certificates.screen import Screen, joined
from provenet.gauges import Asked, BoundKind, Bounds
from provenet.polar import is_dear, polar_bounds
from provenet.problem import Program
from provenet.variable import Stack
from provenet.vectors import power_of_two

_TINY = torch.finfo(torch.float64).tiny  # smaller numbers have lost digits
_MOST_TOL = 0.1  # that polars are bounded for
_FARTHEST, _HALVINGS = 0.25, 12  # of β: where a polar that suffices is looked for beyond it, and how long
_NEAR = 0.05  # of the gap that is asked for: bounds of polars by products with vectors need be no closer at a look


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Θ (n, …, c) with polars of at most ``polar_max`` at every gate, rounding included, and the bound of p* that it
    proves.  bound: of what kind ``polar_max`` is."""

    theta: Tensor = field(repr=False)
    polar_max: float
    bound: BoundKind
    lower: float


@dataclass(frozen=True, eq=False)
class Gap:
    """primal − dual ≥ primal − p* ≥ 0, with no assumption on the point.

    polar_least: a lower bound of the largest polar: where it is beyond β, the point is not optimal.  pull: −A_k*Θ
    (P, p, q) of the point's own gradient, where it was formed; peaks: as `Bounds` has them, for that.
    """

    primal: float
    at: DualPoint
    polar_least: float = 0.0
    pull: Stack | None = field(default=None, repr=False)
    peaks: Tensor | None = field(default=None, repr=False)

    @property
    def dual(self) -> float:
        return self.at.lower

    @property
    def polar_max(self) -> float:
        return self.at.polar_max

    @property
    def bound(self) -> BoundKind:
        return self.at.bound

    @property
    def absolute(self) -> float:
        return self.primal - self.dual

    @property
    def relative(self) -> float:
        return relative_gap(self.primal, self.dual)


def relative_gap(primal: float, dual: float) -> float:
    return (primal - dual) / max(abs(primal), _TINY)


def duality_gap(
    program: Program,
    prediction: Tensor,
    penalty: float,
    final: bool = False,
    tol: float = 0.0,
    screen: Screen | None = None,
    least: float = 0.0,
) -> Gap:
    """The gap of a point with this prediction Ŷ and penalty Σγ(Z_k), by its own gradient Θ = ∇L(Ŷ).

    final: as `Program.polar` has it.  tol: the relative gap that is asked for; polars need not be known better than it
    takes to tell, and where one is found that is too large, not at all, but for the ``final`` time.  screen: which
    gates need not be met; a run has one.  least: what the largest polar is, about, at least: where that proves too
    little, it is not bounded by dear products.
    """
    theta = program.loss.dual_at(prediction)
    primal = float(program.loss.value(prediction)) + program.beta * penalty
    wanted = primal - tol * abs(primal)
    told = program.gauge.exact_polar and not is_dear(program.operator)
    enough = 0.0 if told else enough_polar(program, theta, wanted)
    at, polar = _bounded(program, theta, final, tol, enough, screen, least)
    found = Gap(primal, at)
    return replace(found, polar_least=float(polar.lower.max()), pull=polar.stack, peaks=polar.peaks)


def gap_at(program: Program, prediction: Tensor, penalty: float, at: DualPoint) -> Gap:
    """The gap of a point by any dual point."""
    return Gap(float(program.loss.value(prediction)) + program.beta * penalty, at)


def known_at_zero(program: Program, nothing: Tensor) -> DualPoint | None:
    """The dual point of no neurons, whose prediction is ``nothing``, by β_max, where that is known."""
    # zero is no bound: what rounding makes was taken for nothing; and distances are of all samples
    if not program.known_beta_max or program.operator.shards.spread:
        return None
    theta = program.loss.dual_at(nothing)
    apart = float(torch.linalg.vector_norm(theta - program.loss.gradient(nothing)))  # moved to where sums are zero
    apart *= program.operator.norm_upper() * program.gauge.rounding(program.operator.p, program.operator.q)
    polar_max = (program.known_beta_max + rounding(program, theta) + apart) * (1 + 1e-12)
    return dual_point(program, theta, polar_max, BoundKind.PROBABILISTIC)


def with_intercept(program: Program, gap: Gap, prediction: Tensor, penalty: float, intercept: Tensor | None) -> Gap:
    """The gap of a point whose free intercept, if the loss has one, is this one (c,), None: zero; not the best."""
    if not program.loss.free:
        return gap
    return replace(gap, primal=float(program.loss.value_at(prediction, intercept)) + program.beta * penalty)


def judged(
    program: Program, theta: Tensor, final: bool = True, screen: Screen | None = None, enough: float = 0.0
) -> DualPoint:
    """Any Θ as a dual point, its polars bounded as well as can be afforded once, or, if not final, at a look; not
    tightened below ``enough``."""
    return _bounded(program, program.loss.admissible(theta), final, enough=enough, screen=screen)[0]


def _size(program: Program, theta: Tensor) -> float:
    """The power of two next to Θ's largest entry, of all processes' rows; infinite where one is not finite."""
    finite = bool(torch.isfinite(theta).all())
    largest = program.operator.shards.largest(float(theta.abs().max()) if finite else math.inf)
    return math.inf if largest == math.inf else power_of_two(theta.new_tensor(largest))


def enough_polar(program: Program, theta: Tensor, wanted: float) -> float:
    """About the largest polar_max with which Θ proves the bound ``wanted``; zero where none near β does."""

    def proves(share: float) -> bool:
        return dual_point(program, theta, (1 + share) * program.beta, BoundKind.EXACT).lower >= wanted

    if _size(program, theta) == math.inf or not proves(0.0):
        return 0.0
    low, high = 0.0, _FARTHEST
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if proves(middle) else (low, middle)
    return (1 + low) * program.beta


def _bounded(
    program: Program,
    theta: Tensor,
    final: bool,
    tol: float = 0.0,
    enough: float = 0.0,
    screen: Screen | None = None,
    least: float = 0.0,
) -> tuple[DualPoint, Bounds]:
    """Polars are homogeneous: they are bounded at Θ of moderate size, as squares of what is tiny vanish.

    Compared with a little less than β, they are known to a tenth of that little, where they are β; or as well as
    ``enough`` says."""
    size = _size(program, theta)
    if size == math.inf:
        unknown = theta.new_full((1,), math.inf)
        return DualPoint(theta, math.inf, BoundKind.EXACT, -math.inf), Bounds(torch.zeros_like(unknown), unknown)
    pull = -theta / size
    hidden = rounding(program, pull)
    short = max(enough / size - hidden, 0.0)
    lost = math.inf if final or tol == 0 else short
    near = _NEAR * min(tol, _MOST_TOL)
    asked = Asked((1 - min(tol, _MOST_TOL)) * program.beta / size, short, lost, near, least / size)
    waiting = None if screen is None else screen.waiting(theta)
    gates = None if waiting is None else torch.nonzero(waiting > program.beta).flatten()
    if waiting is None or gates is None or len(gates) == 0:
        bounds = _in_units(polar_bounds(program.operator, program.gauge, pull, final, asked), size, hidden)
        if screen is not None:
            screen.met(theta, bounds.upper)
    else:
        some = program.restrict(gates)
        bounds = _in_units(polar_bounds(some.operator, some.gauge, pull, final, asked), size, hidden)
        bounds = joined(bounds, gates, waiting)
    return dual_point(program, theta, float(bounds.upper.max()), bounds.kind), bounds


def _in_units(polar: Bounds, size: float, hidden: float) -> Bounds:
    """Of Θ, from those of Θ/size; the upper ones with what rounding may hide."""
    stack = None if polar.stack is None else size * polar.stack
    return replace(polar, lower=size * polar.lower, upper=size * (polar.upper + hidden), stack=stack)


def dual_point(program: Program, theta: Tensor, polar_max: float, bound: BoundKind) -> DualPoint:
    """Θ, shrunk by τ until γ_k°(−A_k*τΘ) ≤ β for all k: then −L*(τΘ) ≤ p* by weak duality.

    polar_max: an upper bound of every γ_k°(−A_k*Θ), what rounding in A*Θ can hide included.
    """
    if math.isnan(polar_max):  # nothing is known of it
        polar_max = math.inf
    largest = program.beta / max(polar_max, _TINY) if polar_max > 0 else math.inf
    tau = program.loss.dual_scale(theta, largest)
    return DualPoint(theta, polar_max, bound, -float(program.loss.conjugate(tau * theta)))


def rounding(program: Program, theta: Tensor) -> float:
    """What rounding in A*Θ can hide from the polar."""
    return program.operator.rounding(theta) * program.gauge.rounding(program.operator.p, program.operator.q)
