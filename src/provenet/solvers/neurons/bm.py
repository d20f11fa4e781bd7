"""The Burer–Monteiro factorisation (BM eq. 17, 18): descend on the neurons, escape where the certificate fails.

    min_{U,V}  L(Σ_k A_k(U_kV_kᵀ), Y) + β/2 Σ_k (‖U_k‖² + ‖V_k‖²)

Not convex, yet a stationary point is either proven optimal by the duality gap or shows, in the gates where
γ°(G_k) > β, the neurons that lower the objective.  So the method ends with a proof, or says that it has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from provenet.certificates import Gap
from provenet.polar import is_dear, is_large
from provenet.problem import Program, Units
from provenet.solvers.loop import Method, Point
from provenet.solvers.needs import NUCLEAR
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.escape import escape
from provenet.solvers.neurons.newton import Damping, NewtonSettings, newton_step
from provenet.solvers.neurons.place import Place, compress, gaussian, place
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_REST = 3  # steps between two escapes
_PRODUCTS = 60  # with the data in a step, there and back, where the Hessian is never formed
_SETTLED = 0.05  # a step that gains less than this part of the gap has nothing more to give: time to escape


@dataclass(frozen=True)
class BMState:
    """``rest``: steps until the next escape may come.  ``decrease``: of the objective, by the last step.  ``stuck``: it
    found no better point.  ``exhausted``: neither did escape."""

    place: Place
    rest: int = 0
    damping: Damping = field(default_factory=Damping)
    decrease: float = math.inf
    stuck: bool = False
    exhausted: bool = False


@dataclass(frozen=True)
class BM(Method[BMState]):
    """rank: neurons a gate of a Gaussian start, of standard deviation ``spread``, from ``seed``; None grows from zero.
    A ``start`` given to the loop takes precedence.  escape: whether neurons join.  atoms: how many may at once, or a
    quarter of those there are.

    As a polish, ``run(BM(), program, limits, start=factors)`` converges quadratically from a good point, whatever the
    loss, on that point's neurons.
    """

    rank: int | None = None
    spread: float = 0.1
    seed: int = 0
    escape: bool = True
    atoms: int = 16
    newton: NewtonSettings = field(default_factory=NewtonSettings)

    name = family = "bm"
    needs = (NUCLEAR,)
    patience = 300
    max_steps = 2_000

    def __post_init__(self) -> None:
        check_start(self.rank, self.spread)

    def in_units(self, units: Units) -> BM:
        return replace(self, spread=self.spread / units.z**0.5)

    def memory(self, program: Program) -> int:
        # factors and predictions of the candidates of a step; the stack is never formed where it is large
        op = program.operator
        neurons = 4 * self.atoms if self.rank is None else op.n_gates * self.rank  # a few escapes', or the start's
        formed = 0 if is_large(op) else 4 * op.stack_bytes
        return formed + op.dtype.itemsize * (12 * neurons * (op.p + op.q) + 16 * math.prod(op.output_shape))

    def offer(self, task: Task) -> Offer:
        """Where stacks are too large to be worked on: with gates, if they cannot be formed, before all others; else by
        its products; not to begin with where these are dear.  A finish, quadratic, everywhere else."""
        op, alone = task.program.operator, task.only_neurons
        step = 50 * task.product
        if alone:
            step = _PRODUCTS * 4 * self.atoms * op.neuron_work
            if op.n_gates > 1:  # twice as long, behind gates; and each step is looked at
                step = 0.0 if is_large(op) and not is_dear(op) else 2 * (step + task.product)
        return Offer(self.memory(task.program), 0.0, step, 5 * task.decades, alone and not is_dear(op), finishes=True)

    def work(self, program: Program) -> float:
        # its products have neurons where others have gates times outputs; there are about as many as inputs
        op = program.operator
        return float(op.output_shape[0]) * op.p * (op.p + op.q)

    def init(self, program: Program, start: Factors | None) -> BMState:
        if start is None and self.rank is not None:
            start = gaussian(program, self.rank, self.spread, self.seed)
        return BMState(place(program, start or program.nobody))

    def step(self, program: Program, state: BMState) -> BMState:
        if state.stuck or state.place.factors.n_neurons == 0:
            return replace(state, stuck=True)  # until the next look
        move = newton_step(program, state.place, state.damping, state.decrease, self.newton)
        return replace(
            state,
            place=move.place,
            damping=move.damping,
            decrease=state.place.value - move.place.value,
            rest=state.rest - 1,
            stuck=move.stuck,
        )

    def look(self, program: Program, state: BMState, gap: Gap) -> BMState:
        if not self.escape:
            return replace(state, exhausted=state.stuck)
        if not state.stuck and (state.rest > 0 or state.decrease > _SETTLED * gap.absolute):
            return state
        found = escape(program, state.place, max(self.atoms, state.place.factors.n_neurons // 4))
        if found is None:
            return replace(state, exhausted=state.stuck)
        found = best_amplitudes(program, found)
        there = place(program, compress(found.factors))
        return replace(state, place=there, rest=_REST, stuck=False)

    def finished(self, state: BMState) -> bool:
        return state.exhausted

    def point(self, program: Program, state: BMState) -> Point:
        return Point.of(state.place.factors, state.place.prediction)


def check_start(rank: int | None, spread: float) -> None:
    """The settings of a Gaussian start."""
    if not 0 < spread < math.inf:
        raise ValueError(f"spread: it must be a positive, finite number, got {spread!r}.")
    if rank is not None and rank < 1:
        raise ValueError(f"rank: at least one neuron a gate is needed, got {rank}; None grows from zero.")
