"""The interior point on the pairs (gate, sign) that matter, for ReLU programs with one output.

Few pairs are open at the optimum.  The interior point works on those that are open or want to open; all others are
priced by projection, as the polar of one output is the longer of ‖Proj_K(±A_k*Θ)‖ and multipliers certify it whatever
their accuracy.  Those above β join, those that have closed leave, while the complementarity falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from provenet import deadline
from provenet.certificates import Gap
from provenet.cones import Projection, Table, project
from provenet.gauges import ConeGauge
from provenet.problem import Program
from provenet.solvers.interior.blocks import LinAlgError
from provenet.solvers.interior.pairs.ipm import Iterate, advance, central, objective
from provenet.solvers.interior.pairs.pairs import DistinctRows, Pairs
from provenet.solvers.interior.pairs.slope import first_slope
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import DOUBLE, TABLE, UNPAID
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_FIRST = 0.5  # of the objective: the complementarity of the first iterate
_FILL = 40  # unknowns a sample that there may be at first
_HALF = 0.5  # of β_max: pairs below it need no exact price to begin with
_MOST_SQUARES = 2e8  # numbers in the table of Φ_rΦ_rᵀ
_ROUND = 0.1  # what a round leaves of the complementarity
_FIRST_STEP, _STEP = 4e-5, 0.01  # the gap the first step wants, and what later ones want to be left of it
_SETUP = 3e7  # multiply-adds: what its calls take, however small the problem,
_PER_ROW = 600.0  # and for each row and gate, more so in many dimensions, for a digit
_TARGETS = 8  # such steps, down to what float64 can tell
_AIM = 0.3  # of the gap a step wants, for the complementarity alone
_BEYOND = 0.01  # of the complementarity a step aims at
_ROUNDS = 12  # a step
_ITERATIONS = 40  # a round
_SETTLED = 0.3  # of the complementarity, relatively: so far above β may the polar of a settled pair be
_ENTER = 1 + 1e-9  # of β: pairs above it may join
_BATCH = 32  # pairs that may join at once, or as many as there are
_INSIDE = 0.99  # of β: the polar from which a pair that joins starts
_SHARE = 3.0  # times its share of the complementarity: a pair whose cost is below it may have closed
_CLOSED = 0.95  # of β: it has, if its polar is below this
_SURE = 0.15  # of the objective: the complementarity at which pairs begin to leave


@dataclass(frozen=True)
class Prices:
    """The last projections of all 2P pairs, gates with sign + first: where the next ones begin."""

    last: Projection

    def at(self, table: DistinctRows, which: Tensor, wanted: Tensor, enough: float) -> tuple[Prices, Tensor]:
        """‖Proj_K(wanted)‖ of some pairs (B,), wanted (B, p), or a bound of it that is no larger than ``enough``."""
        if len(which) == 0:
            return self, wanted.new_zeros(0)
        P = len(table.cones.signs)
        found = project(table.rows, table.cones.signs[which % P], wanted, self.last.select(which), enough)
        parts = zip(vars(self.last).values(), vars(found).values(), strict=True)
        updated = Projection(*(old.index_copy(0, which, new) for old, new in parts))
        return Prices(updated), torch.linalg.vector_norm(found.point, dim=1)

    @staticmethod
    def none(table: DistinctRows) -> Prices:
        P, (N, p) = 2 * len(table.cones.signs), table.rows.shape
        width = min(p, N) + 1
        zeros = table.rows.new_zeros(P, width)
        index = torch.zeros(P, width, dtype=torch.long)
        point, violation = table.rows.new_zeros(P, p), table.rows.new_zeros(P)
        return Prices(Projection(point, index, zeros, zeros.clone(), violation))


@dataclass(frozen=True)
class ReluState:
    table: DistinctRows
    prices: Prices
    given: Factors
    iterate: Iterate | None = None
    gap: float = 1.0  # relative, as far as known
    stuck: bool = False


@dataclass(frozen=True)
class WorkingSet(Method[ReluState]):
    """first: pairs to begin with; None: all, or as many as have `_FILL` unknowns a sample; with kinks all."""

    first: int | None = None

    name = "working_set"
    needs = (TABLE, DOUBLE, UNPAID)
    patience = 4
    max_steps = 60

    def declines(self, program: Program[ConeGauge[Table]]) -> str | None:
        op = program.operator
        if op.q != 1 or op.output_shape[-1] != 1:
            return f"it needs one output; this program has {max(op.q, op.output_shape[-1])}."
        squares = len(program.gauge.region.rows) * op.p * (op.p + 1) / 2
        if squares > _MOST_SQUARES:
            return f"the squares of its rows are {squares:.2g} numbers, more than {_MOST_SQUARES:.0e}."
        return None

    def memory(self, program: Program[ConeGauge[Table]]) -> int:
        op = program.operator
        n, N, pairs = op.kernel_rows, len(program.gauge.region.rows), self._first(program)
        system = min(pairs, op.n_gates) * op.p * n + 2 * min(pairs * op.p, n) ** 2
        return 8 * (system + 24 * pairs * N + N * op.p * (op.p + 1) // 2)

    def work(self, program: Program[ConeGauge[Table]]) -> float:
        op = program.operator
        return float(op.kernel_rows) * op.p * min(self._first(program), 2 * op.n_gates) * op.p

    def offer(self, task: Task) -> Offer:
        op = task.program.operator
        each = _PER_ROW * op.kernel_rows * op.n_gates * (1 + op.p / 8)
        return Offer(self.memory(task.program), _SETUP, each, task.decades, starts=True)

    def init(self, program: Program[ConeGauge[Table]], start: Factors | None) -> ReluState:
        table = DistinctRows.of(program.gauge.region)
        return ReluState(table, Prices.none(table), start or program.nobody)

    def step(self, program: Program[ConeGauge[Table]], state: ReluState) -> ReluState:
        target = _FIRST_STEP
        for _ in range(_TARGETS):  # a look is dear: few steps, each to just below a round number
            target *= _STEP if state.gap <= 2 * target else 1.0
        try:
            if state.iterate is None:
                state = self._begin(program, state)
            for _ in range(_ROUNDS):
                state = self._round(program, state, _AIM * target)
                if state.gap <= 2 * target or deadline.over():
                    break
        except LinAlgError:  # rounding has the upper hand
            state = replace(state, stuck=True)
        return state

    def look(self, program: Program[ConeGauge[Table]], state: ReluState, gap: Gap) -> ReluState:
        return state if state.iterate is None else replace(state, gap=min(max(gap.relative, 1e-16), 1.0))

    def finished(self, state: ReluState) -> bool:
        return state.stuck

    def point(self, program: Program[ConeGauge[Table]], state: ReluState) -> Point:
        factors = state.given if state.iterate is None else _neurons(state.iterate)
        return Point.of(factors, program.operator.forward_factors(factors))

    def _first(self, program: Program[ConeGauge[Table]]) -> int:
        op = program.operator
        if self.first is not None:
            return min(self.first, 2 * op.n_gates)
        if program.loss.kink is not None:  # pairs that join late push samples over its kinks
            return 2 * op.n_gates
        return min(max(64, _FILL * op.kernel_rows // op.p), 2 * op.n_gates)

    def _begin(self, program: Program[ConeGauge[Table]], state: ReluState) -> ReluState:
        """The pairs that the zero network misses most, and those of the start, all at central points."""
        op, table = program.operator, state.table
        every, few, prices = torch.arange(2 * op.n_gates), self._first(program), state.prices
        chosen = every
        if few < len(every):
            theta = program.loss.gradient(torch.zeros_like(program.loss.target))
            prices, length = prices.at(table, every, _wanted(program, theta), _HALF * program.beta_max)
            length[state.given.gate + op.n_gates * (state.given.right[:, 0] < 0)] = torch.inf
            chosen = torch.sort(torch.argsort(length, descending=True)[:few]).values
        pairs = _pairs(program, table, chosen)
        value = float(program.loss.value(torch.zeros_like(program.loss.target)))
        mu = _FIRST * value / (len(pairs) * (len(table.rows) + 1))
        gates = torch.unique(pairs.gate)
        nothing = op.space.zeros(len(gates), op.p)
        both = central(table, _pairs(program, table, gates), nothing, program.beta, mu)  # the sign does not matter yet
        iterate = both.select(pairs, pairs.place)
        iterate = replace(iterate, slope=first_slope(program.loss, iterate.prediction, mu))
        return replace(state, prices=prices, iterate=iterate)

    def _round(self, program: Program[ConeGauge[Table]], state: ReluState, aim: float) -> ReluState:
        """Iterations until the complementarity has fallen enough; then pairs leave and join."""
        at, beta, table = state.iterate, program.beta, state.table
        assert at is not None
        now = at.complementarity(beta)
        for _ in range(_ITERATIONS):
            at = advance(program, table, at)
            value = objective(program, at)
            left = at.complementarity(beta)
            settled = _own_polar(program, at).max() <= beta * (1 + _SETTLED * left / value)
            beyond = left <= _BEYOND * aim * value  # from here on rounding alone keeps the polar from settling
            if (settled and left <= max(_ROUND * now, aim * value)) or beyond or deadline.over():
                break
        return self._priced(program, replace(state, iterate=at))

    def _priced(self, program: Program[ConeGauge[Table]], state: ReluState) -> ReluState:
        """The gap over all pairs; those that have closed leave, those above β join."""
        at, beta, table = state.iterate, program.beta, state.table
        assert at is not None
        P, loss = program.operator.n_gates, program.loss
        theta = loss.admissible(at.slope.theta(loss, at.prediction).view(program.operator.output_shape))
        wanted = _wanted(program, theta)
        names = at.pairs.gate + P * (at.pairs.sign < 0)
        own = _own_polar(program, at)
        outside = torch.ones(2 * P, dtype=torch.bool)
        outside[names] = False
        others = torch.nonzero(outside).flatten()
        prices, length = state.prices.at(table, others, wanted[others], beta)
        polar = max(float(own.max()), float(length.max()) if len(length) else 0.0)
        value = objective(program, at)
        gap = (value + float(loss.conjugate(loss.dual_scale(theta, beta / polar) * theta))) / value
        left, mu = at.complementarity(beta), at.complementarity(beta) / at.degree
        # on the central path a pair that closes has β‖u‖ of about its share of the complementarity
        small = torch.nonzero(beta * at.t < _SHARE * left / len(at.t)).flatten()
        if len(small) and left < _SURE * value:
            prices, size = prices.at(table, names[small], wanted[names[small]], _CLOSED * beta)
            keep = torch.ones(len(names), dtype=torch.bool)
            keep[small[size <= _CLOSED * beta]] = False
            keep[at.t.argmax()] = True  # far from settled all may look closed, and an empty set has no way on
            fewer = at.select(_pairs(program, table, names[keep]), torch.nonzero(keep).flatten()).fitted()
            if fewer.complementarity(beta) <= left:  # else the loss would feel it
                at, names = fewer, names[keep]
        rising = torch.nonzero(length > _ENTER * beta).flatten()
        if len(rising):
            rising = rising[torch.argsort(length[rising], descending=True)[: max(_BATCH, len(names))]]
            pull = -wanted[others[rising]] * (_INSIDE * beta / length[rising])[:, None]
            newcomers = central(table, _pairs(program, table, others[rising]), pull, beta, mu)
            at = at.joined(_pairs(program, table, torch.cat([names, others[rising]])), newcomers).fitted()
        return replace(state, prices=prices, iterate=at, gap=gap)


def _wanted(program: Program[ConeGauge[Table]], theta: Tensor) -> Tensor:
    """−s·A_k*Θ of all pairs, (2P, p): what their neurons would like to be."""
    slope = program.operator.adjoint(theta)[:, :, 0]
    return torch.cat([-slope, slope])


def _pairs(program: Program[ConeGauge[Table]], table: DistinctRows, which: Tensor) -> Pairs:
    P = program.operator.n_gates
    sign = torch.where(which < P, 1.0, -1.0).to(table.rows.dtype)
    return Pairs.of(program, table, which % P, sign)


def _own_polar(program: Program[ConeGauge[Table]], at: Iterate) -> Tensor:
    """‖AᵀΘ − Kᵀλ‖ (J,): the iterate's own multipliers bound the polar of its pairs."""
    theta = at.slope.theta(program.loss, at.prediction)
    return torch.linalg.vector_norm(at.pairs.adjoint(theta) - at.pairs.pushed(at.multipliers), dim=1)


def _neurons(at: Iterate) -> Factors:
    root = torch.linalg.vector_norm(at.u, dim=1, keepdim=True).sqrt()
    return Factors(at.u / root, at.pairs.sign[:, None] * root, at.pairs.gate)
