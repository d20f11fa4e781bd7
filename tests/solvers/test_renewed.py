"""Near the end, what a look has made of a point is looked at before any step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import provenet as pn
from provenet.certificates import Gap
from provenet.problem import Program
from provenet.solvers.loop import Limits, Method, Point, run
from provenet.solvers.stacks.apg import APG
from provenet.solvers.status import Status
from provenet.variable import Factors


@dataclass(frozen=True)
class Jump(Method[bool]):
    """Stands at ``near`` until a look takes it to ``best``."""

    near: Factors
    best: Factors
    tells: bool
    name = "jump"

    def init(self, program: Program, start: Factors | None) -> bool:
        return False

    def step(self, program: Program, state: bool) -> bool:
        return state

    def point(self, program: Program, state: bool) -> Point:
        factors = self.best if state else self.near
        return Point.of(factors, program.operator.forward_factors(factors))

    def look(self, program: Program, state: bool, gap: Gap) -> bool:
        return True

    def renewed(self, state: bool) -> bool:
        return self.tells


@pytest.mark.parametrize(("tells", "coarse", "steps"), [(True, 4e-3, 0), (False, 4e-3, 1), (True, 2e-1, 1)])
def test_a_renewed_point_is_looked_at_before_a_step_where_the_end_is_near(tells, coarse, steps):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    problem = pn.formulate("mlp", X, np.abs(X[:, :1]), gates=10, loss="squared", beta=1.0)
    program = problem.program
    near, best = (run(APG(), program, Limits(tol)).factors for tol in (coarse, 1e-6))
    seen = []
    done = run(Jump(near, best, tells), program, Limits(1e-3), callback=lambda record: seen.append(record.step))
    assert done.status is Status.SOLVED
    assert done.steps == steps
    assert seen == [0, steps]  # every look that decides is told
