"""Every block's optimum is CVXPY's on the program of the papers, and the independent checker confirms it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import provenet as pn
from provenet.blocks.formulate import ACTIVATIONS
from provenet.solvers import METHODS
from provenet.testing import Case
from provenet.testing.bank import example_case
from provenet.testing.examples import Example, examples

EVERY = [(example, readout) for example in examples() for readout in example.readouts]
TOL = 1e-6


@pytest.mark.parametrize("loss", ["squared", "softmax"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("example", "readout"), EVERY, ids=lambda value: str(value))
def test_the_optimum_is_that_of_the_papers_program(
    example: Example, readout: str, activation: str, loss: str, paper_optimum: Callable[[Case], float]
) -> None:
    if loss == "softmax" and example.masked and readout == "tokens":
        pytest.skip("a token that is not there has no class")
    case = example_case(example, loss, activation, readout, n=6)
    best = paper_optimum(case)
    methods = ["auto", "bm"] if loss == "softmax" else ["auto", *(name for name in METHODS if name != "cvx")]
    program = case.problem.program
    able = [name for name in methods if name == "auto" or METHODS[name]().refuses(program) is None]
    assert {"auto", "bm"} <= set(able)
    for name in able:
        solution = pn.solve(case.problem, name, tol=TOL)
        found = solution.certificate
        assert found.holds(TOL), f"{name}: {solution}"
        assert found.primal == pytest.approx(best, rel=2 * TOL), name
        assert found.dual <= best * (1 + 1e-7), name
        verdict = case.verify(solution.network())
        assert verdict.gap == pytest.approx(found.gap, abs=1e-9 * found.primal), name
        assert verdict.relative_gap <= TOL + 1e-9, name
