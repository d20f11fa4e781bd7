"""The recipes of the papers for the factorisation: gradient descent (BM C.1), preconditioned descent (BM A.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from provenet.certificates import Gap
from provenet.problem import Program, Units
from provenet.solvers.loop import Method, Point
from provenet.solvers.neurons.bm import BM, BMState, check_start
from provenet.solvers.neurons.descent import Momentum, Plateau, Preconditioned
from provenet.solvers.neurons.place import Place, gaussian, place
from provenet.variable import Factors

OPTIMIZERS = ("gd", "pgd")


@dataclass(frozen=True)
class FirstOrderState:
    """``steps`` of the descent; ``finish``: Newton and escape, once they have taken over."""

    place: Place
    descent: Momentum | Preconditioned
    steps: int = 0
    stuck: bool = False
    finish: BMState | None = None


@dataclass(frozen=True)
class FirstOrderBM(Method[FirstOrderState]):
    """optimizer: "gd" (momentum, and decay on plateau) or "pgd" (preconditioned) for ``epochs`` steps, after which
    ``finish`` takes over: Newton and escape; None: nothing does.
    The rate promised for "pgd" is of objectives without weight decay.  With it, 1,000 steps on one small problem were
    closer to the optimum than those of "gd" at 0.3 and 0.01 β_max (0.06 against 0.23 of it), and farther at 0.001 (0.60
    against 0.28).
    rank: neurons a gate of a Gaussian start, of standard deviation ``spread``, from ``seed``; None: min(p, q).  A
    ``start`` given to the loop takes precedence.
    learning_rate, momentum, decay: of "gd".  mean: "gd" sees the mean of the objective over the target's entries, not
    the sum; the minimisers are the same.
    """

    optimizer: str = "gd"
    rank: int | None = None
    spread: float = 0.1
    seed: int = 0
    epochs: int = 20_000
    learning_rate: float = 1.0
    momentum: float = 0.9
    decay: float = 0.9
    mean: bool = True
    finish: BM | None = field(default_factory=BM)

    name = "first_order_bm"
    needs = BM.needs
    check_every = 10

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"optimizer: {self.optimizer!r} is unknown; choose one of {', '.join(map(repr, OPTIMIZERS))}."
            )
        check_start(self.rank, self.spread)

    @property
    def patience(self) -> int:
        return self.epochs

    @property
    def max_steps(self) -> int:
        return self.epochs + BM.max_steps

    def in_units(self, units: Units) -> FirstOrderBM:
        """A unit of weight is √z of the user's, so that one of its gradient is value/√z."""
        finish = None if self.finish is None else self.finish.in_units(units)
        rate = self.learning_rate * units.value / units.z
        return replace(self, spread=self.spread / units.z**0.5, learning_rate=rate, finish=finish)

    def memory(self, program: Program) -> int:
        return BM(rank=self._rank(program)).memory(program)

    def work(self, program: Program) -> float:
        return BM().work(program)

    def init(self, program: Program, start: Factors | None) -> FirstOrderState:
        factors = gaussian(program, self._rank(program), self.spread, self.seed) if start is None else start
        return FirstOrderState(place(program, factors), self._descent(program))

    def step(self, program: Program, state: FirstOrderState) -> FirstOrderState:
        if self.finish is not None and (state.finish is not None or self._descended(state)):
            finish = self.finish.step(program, state.finish or BMState(state.place, stuck=state.stuck))
            return replace(state, place=finish.place, finish=finish)
        there, descent = state.descent.step(program, state.place)
        return replace(state, place=there, descent=descent, steps=state.steps + 1, stuck=there is state.place)

    def look(self, program: Program, state: FirstOrderState, gap: Gap) -> FirstOrderState:
        if self.finish is None or (state.finish is None and not self._descended(state)):
            return state
        finish = self.finish.look(program, state.finish or BMState(state.place, stuck=state.stuck), gap)
        return replace(state, place=finish.place, finish=finish)

    def finished(self, state: FirstOrderState) -> bool:
        if self.finish is None:
            return self._descended(state)
        return state.finish is not None and self.finish.finished(state.finish)

    def _descended(self, state: FirstOrderState) -> bool:
        """Whether the descent is over."""
        return state.stuck or state.steps >= self.epochs

    def point(self, program: Program, state: FirstOrderState) -> Point:
        return Point.of(state.place.factors, state.place.prediction)

    def _rank(self, program: Program) -> int:
        return self.rank or min(program.operator.p, program.operator.q)

    def _descent(self, program: Program) -> Momentum | Preconditioned:
        if self.optimizer == "gd":
            scale = 1 / program.loss.target.numel() if self.mean else 1.0
            return Momentum(Plateau(self.learning_rate, self.decay), self.momentum, scale)
        lipschitz = max(program.loss.smoothness() * program.operator.norm_upper() ** 2, program.beta)
        return Preconditioned(lipschitz, 1 / lipschitz)
