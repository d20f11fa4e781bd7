"""The Burer–Monteiro factorisation (BM eq. 17, 18): descend on the neurons, escape where the certificate fails.

    min_{U,V}  L(Σ_k A_k(U_kV_kᵀ), Y) + β/2 Σ_k (‖U_k‖² + ‖V_k‖²)

Not convex, yet a stationary point is either proven optimal by the duality gap or shows, in the gates where
γ°(G_k) > β, the neurons that lower the objective.  So the method ends with a proof, or says that it has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from provenet.certificates import Gap
from provenet.polar import is_large
from provenet.problem import Program
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import NUCLEAR
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.descent import Momentum, Plateau, Preconditioned
from provenet.solvers.neurons.escape import escape
from provenet.solvers.neurons.newton import Damping, NewtonSettings, newton_step
from provenet.solvers.neurons.place import Place, compress, gaussian, place
from provenet.variable import Factors

OPTIMIZERS = ("newton", "gd", "pgd")
_REST = 3  # steps between two escapes
_SETTLED = 0.05  # a step that gains less than this part of the gap has nothing more to give: time to escape


@dataclass(frozen=True)
class BMState:
    """``first_order``: the descent under way, None once Newton has taken over.  ``rest``: steps until the next escape
    may come.  ``decrease``: of the objective, by the last step.  ``stuck``: it found no better point.  ``exhausted``:
    neither did escape."""

    place: Place
    first_order: Momentum | Preconditioned | None
    steps: int = 0
    rest: int = 0
    damping: Damping = field(default_factory=Damping)
    decrease: float = math.inf
    stuck: bool = False
    exhausted: bool = False


@dataclass(frozen=True)
class BM(Method[BMState]):
    """optimizer: "newton"; or "gd" (momentum and decay on plateau, BM C.1) or "pgd" (preconditioned, BM A.1) for
    ``epochs`` steps, after which Newton and escape finish, unless ``escape`` is False.
    rank: neurons a gate of a Gaussian start, of standard deviation ``spread``, from ``seed``; None grows from zero with
    "newton", and is min(p, q) for the others.  A ``start`` given to the loop takes precedence.
    learning_rate, momentum, decay: of "gd".  mean: "gd" sees the mean of the objective over the target's entries, not
    the sum; the minimisers are the same.
    atoms: neurons an escape may add, or a quarter of those there are.

    As a polish, ``run(BM(), program, limits, start=factors)`` converges quadratically from a good point, whatever the
    loss, on that point's neurons.
    """

    optimizer: str = "newton"
    rank: int | None = None
    spread: float = 0.1
    seed: int = 0
    epochs: int = 20_000
    learning_rate: float = 1.0
    momentum: float = 0.9
    decay: float = 0.9
    mean: bool = True
    escape: bool = True
    atoms: int = 16
    newton: NewtonSettings = field(default_factory=NewtonSettings)

    name = "bm"
    needs = (NUCLEAR,)

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"optimizer: {self.optimizer!r} is unknown; choose one of {', '.join(map(repr, OPTIMIZERS))}."
            )
        if not 0 < self.spread < math.inf:
            raise ValueError(f"spread: it must be a positive, finite number, got {self.spread!r}.")
        if self.rank is not None and self.rank < 1:
            raise ValueError(f"rank: at least one neuron a gate is needed, got {self.rank}; None grows from zero.")
        first_order = self.optimizer != "newton"
        # frozen: the loop's limits follow from the optimizer, once
        object.__setattr__(self, "check_every", 10 if first_order else 1)
        object.__setattr__(self, "patience", self.epochs if first_order else 300)
        object.__setattr__(self, "max_steps", 2_000 + (self.epochs if first_order else 0))

    def memory(self, program: Program) -> int:
        # factors and predictions of the candidates of a step; the stack is never formed where it is large
        op = program.operator
        neurons = self._first_width(program)
        formed = 0 if is_large(op) else 4 * op.stack_bytes
        return formed + op.dtype.itemsize * (12 * neurons * (op.p + op.q) + 16 * math.prod(op.output_shape))

    def _first_width(self, program: Program) -> int:
        """Neurons of the start, or as many as an escape may add a few times."""
        if self.rank is None and self.optimizer == "newton":
            return 4 * self.atoms
        return program.operator.n_gates * (self.rank or min(program.operator.p, program.operator.q))

    def work(self, program: Program) -> float:
        # its products have neurons where others have gates times outputs; there are about as many as inputs
        op = program.operator
        return float(op.output_shape[0]) * op.p * (op.p + op.q)

    def init(self, program: Program, start: Factors | None) -> BMState:
        op = program.operator
        first_order = self._first_order(program)
        if start is not None:
            factors = start
        elif self.rank is None and first_order is None:
            factors = Factors.empty(op.p, op.q, op.space)
        else:
            factors = gaussian(program, self.rank or min(op.p, op.q), self.spread, self.seed)
        return BMState(place(program, factors), first_order)

    def _first_order(self, program: Program) -> Momentum | Preconditioned | None:
        if self.optimizer == "gd":
            scale = 1 / program.loss.target.numel() if self.mean else 1.0
            return Momentum(Plateau(self.learning_rate, self.decay), self.momentum, scale)
        if self.optimizer == "pgd":
            lipschitz = max(program.loss.smoothness() * program.operator.norm_upper() ** 2, program.beta)
            return Preconditioned(lipschitz, 1 / lipschitz)
        return None

    def step(self, program: Program, state: BMState) -> BMState:
        if state.first_order is not None and state.steps < self.epochs:
            there, first_order = state.first_order.step(program, state.place)
            return replace(
                state,
                place=there,
                first_order=first_order,
                steps=state.steps + 1,
                decrease=state.place.value - there.value,
                stuck=there is state.place,
            )
        if state.stuck or state.place.factors.n_neurons == 0:
            return replace(state, stuck=True)  # until the next look
        move = newton_step(program, state.place, state.damping, state.decrease, self.newton)
        there = move.place if move.flat else best_amplitudes(program, move.place)
        return replace(
            state,
            place=there,
            steps=state.steps + 1,
            damping=move.damping,
            decrease=state.place.value - there.value,
            rest=state.rest - 1,
            stuck=move.stuck,
        )

    def look(self, program: Program, state: BMState, gap: Gap) -> BMState:
        if not self.escape:
            return replace(state, exhausted=state.stuck)
        if self._descending(state) and not state.stuck:
            return state
        if not state.stuck and (state.rest > 0 or state.decrease > _SETTLED * gap.absolute):
            return state
        found = escape(program, state.place, max(self.atoms, state.place.factors.n_neurons // 4))
        if found is None:
            return replace(state, exhausted=state.stuck)
        found = best_amplitudes(program, found)
        there = place(program, compress(found.factors))
        return replace(state, place=there, first_order=None, rest=_REST, stuck=False)

    def finished(self, state: BMState) -> bool:
        first_order_only = self.optimizer != "newton" and not self.escape
        return state.exhausted or (first_order_only and not self._descending(state))

    def _descending(self, state: BMState) -> bool:
        """Whether a first-order descent is still under way."""
        return state.first_order is not None and state.steps < self.epochs

    def point(self, program: Program, state: BMState) -> Point:
        factors = state.place.factors
        return Point(state.place.prediction, float(factors.penalty()), lambda: factors)
