from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.problem import Program
from provenet.solvers import METHODS, Method
from provenet.solvers.cones.classic import ClassicFrankWolfe
from provenet.solvers.neurons.first_order import FirstOrderBM
from provenet.solvers.stacks.apg import APG, APGState
from provenet.testing import Case, check_solver, check_states, problem_bank

# Clarabel's point is better than its gradient, from which the certificate's dual point is made
TOL = {"cvx": 1e-5}


@pytest.mark.parametrize("case", problem_bank(), ids=str)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto"])
def test_solver(name: str, case: Case) -> None:
    reason = check_solver(METHODS[name](), case, TOL.get(name, 1e-6))
    if reason is not None:
        pytest.skip(f"{name}: {reason}")


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_states_of_relu_programs_do_not_change(name: str, outputs: int) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 3)), rng.standard_normal((12, outputs))
    problem = pn.formulate("mlp", X, Y, "relu", gates=8, beta=1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    method = METHODS[name]()
    reason = method.refuses(problem.program)
    if reason is not None:
        pytest.skip(f"{name}: {reason}")
    check_states(method, problem)


def test_a_state_that_remembers_is_found() -> None:
    @dataclass(frozen=True)
    class Forgetful(APG):
        def step(self, program: Program, state: APGState) -> APGState:
            moved = super().step(program, state)
            state.z.copy_(moved.z)
            return moved

    case = next(iter(problem_bank()))
    with pytest.raises(AssertionError, match=r"changed state\.z"):
        check_states(Forgetful(), case.problem)


def test_no_two_methods_share_a_name() -> None:
    everyone: list[type[Method[Any]]] = [*METHODS.values(), FirstOrderBM, ClassicFrankWolfe]
    assert len({kind.name for kind in everyone}) == len(everyone)
    assert {kind.family for kind in everyone} - {""} <= set(METHODS)
