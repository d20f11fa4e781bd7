"""The interior point on the gates that matter.

Few gates are open at the optimum.  The interior point solves the program on those that are open or want to open, all
others are priced by their polar, those above β join, and so on until none is: a finish where P is large.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from provenet import memory
from provenet.certificates import Gap, duality_gap
from provenet.problem import Program
from provenet.solvers.interior.ipm import IPM, IPMState
from provenet.solvers.loop import Method, Point
from provenet.solvers.offers import Offer, Task
from provenet.variable import Factors

_ENTER = 1.0 - 1e-6  # of β: gates whose polar is above this join the working set
_SHARE = 0.5  # of the free memory that the inner method may take
_SOLVED = 0.05  # the local gap, as a share of the global one, at which other gates must be the reason


@dataclass(frozen=True)
class WorkingSetState:
    gates: Tensor
    local: Program
    inner: IPMState | None  # None where the open gates are already too many: the start is all there is
    given: Factors
    full: bool = False  # no room for more gates, or none wants in


@dataclass(frozen=True)
class ActiveIPM(Method[WorkingSetState]):
    inner: IPM = field(default_factory=lambda: IPM(max_unknowns=2500))

    name = "active_ipm"
    needs = IPM.needs
    patience = 40
    max_steps = 400

    def declines(self, program: Program) -> str | None:
        return self.inner.declines(program.restrict(torch.zeros(1, dtype=torch.long)))

    def memory(self, program: Program) -> int:
        return 0  # gates join only while the inner method has room

    def offer(self, task: Task) -> Offer:
        return Offer(self.memory(task.program), 0.0, task.product, 5 * task.decades, finishes=True)

    def init(self, program: Program, start: Factors | None) -> WorkingSetState:
        factors = start or program.nobody
        gates = self._wanted(program, factors, torch.unique(factors.gate))
        if gates.numel() == 0 or not self._has_room(program, gates):
            return WorkingSetState(gates, program, None, factors, full=True)
        return self._enter(program, gates, factors)

    def step(self, program: Program, state: WorkingSetState) -> WorkingSetState:
        if state.inner is None or self.inner.finished(state.inner):  # there is no step to take on these gates
            return replace(state, full=True)
        return replace(state, inner=self.inner.step(state.local, state.inner))

    def look(self, program: Program, state: WorkingSetState, gap: Gap) -> WorkingSetState:
        assert state.inner is not None
        point = self.inner.point(state.local, state.inner)
        local = duality_gap(state.local, point.prediction, point.penalty)
        if local.absolute > _SOLVED * gap.absolute and not self.inner.finished(state.inner):
            return state
        factors = self._global(point.factors(), state.gates)
        gates = self._wanted(program, factors, state.gates)
        if gates.numel() == state.gates.numel():
            return replace(state, full=self.inner.finished(state.inner))
        return self._enter(program, gates, factors)

    def finished(self, state: WorkingSetState) -> bool:
        return state.full

    def point(self, program: Program, state: WorkingSetState) -> Point:
        if state.inner is None:
            return Point.of(state.given, program.operator.forward_factors(state.given))
        point = self.inner.point(state.local, state.inner)
        return replace(point, factors=lambda: self._global(point.factors(), state.gates))

    def _wanted(self, program: Program, factors: Factors, gates: Tensor) -> Tensor:
        """``gates`` and those whose polar reaches β, the largest first while the inner method has room."""
        prediction = program.operator.forward_factors(factors)
        polar = program.polar(program.loss.gradient(prediction)).upper
        outside = torch.ones_like(polar, dtype=torch.bool)
        outside[gates] = False
        entering = torch.nonzero(outside & (polar > _ENTER * program.beta)).flatten()
        entering = entering[torch.argsort(polar[entering], descending=True)]
        for _ in range(entering.numel().bit_length()):  # halves, down to none
            if self._has_room(program, torch.cat([gates, entering])):
                break
            entering = entering[: entering.numel() // 2]
        return torch.cat([gates, entering])

    def _has_room(self, program: Program, gates: Tensor) -> bool:
        local = program.restrict(gates)
        return self.inner.refuses(local) is None and memory.fits(self.inner.memory(local), _SHARE)

    def _enter(self, program: Program, gates: Tensor, factors: Factors) -> WorkingSetState:
        local = program.restrict(gates)
        place = torch.full((program.operator.n_gates,), -1)
        place[gates] = torch.arange(gates.numel())
        start = Factors(factors.left, factors.right, place[factors.gate])
        return WorkingSetState(gates, local, self.inner.init(local, start), factors)

    @staticmethod
    def _global(factors: Factors, gates: Tensor) -> Factors:
        return Factors(factors.left, factors.right, gates[factors.gate])
