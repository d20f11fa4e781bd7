"""Every block's optimum is CVXPY's on the program of the papers, and the independent checker confirms it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import provenet as pn
from provenet.solvers import METHODS
from provenet.testing import Case
from provenet.testing.bank import example_case
from provenet.testing.examples import Example, examples
from provenet.variable import Factors

ACTIVATIONS = ("linear", "gated_relu")  # of convex programs; ReLU has tests of its own
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
    every = loss == "squared" and readout == "mean"  # the rest by the two that take all
    methods = ["auto", *(name for name in METHODS if name != "cvx")] if every else ["auto", "bm"]
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


@settings(max_examples=100)
@given(st.data())
def test_no_dual_is_above_any_primal(data: st.DataObject) -> None:
    """Weak duality, network against network, on any block; and the checker's numbers at each."""
    example = data.draw(st.sampled_from(list(examples())))
    readout = data.draw(st.sampled_from(example.readouts))
    losses = ["squared", "huber"] if example.masked else ["squared", "huber", "softmax", "logistic"]
    case = example_case(
        example,
        data.draw(st.sampled_from(losses)),
        data.draw(st.sampled_from(ACTIVATIONS)),
        readout,
        n=data.draw(st.integers(1, 6)),
        gates=data.draw(st.integers(1, 4)),
        ratio=10.0 ** data.draw(st.floats(-2, 0.2)),
        seed=data.draw(st.integers(0, 2**32 - 2)),
    )
    problem = case.problem
    P, p, q = problem.program.operator.stack_shape
    generator = torch.Generator().manual_seed(0)
    primals, duals = [], []
    for scale in (0.0, 0.1, 1.0, 10.0):
        left, right = (scale * torch.randn(3, size, generator=generator, dtype=torch.float64) for size in (p, q))
        network = problem.network(Factors(left, right, torch.randint(P, (3,), generator=generator)))
        certificate, verdict = pn.certify(problem, network), case.verify(network)
        assert abs(verdict.primal - certificate.primal) <= 1e-11 * abs(certificate.primal)
        assert abs(verdict.gap - certificate.gap) <= 1e-9 * abs(certificate.primal)
        primals.append(certificate.primal)
        duals.append(certificate.dual)
    assert max(duals) <= min(primals) * (1 + 1e-12)
