"""ReLU behind a network's units as gates: whatever the limits, no worse than that network, and than none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import provenet as pn
from provenet import deadline
from provenet.certificates import relu_point
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.loop import Limits
from provenet.solvers.solve import solve_quietly
from provenet.testing.examples import Example, examples
from provenet.variable import Factors

N = 8
SHORT = [Limits(1e-6, max_steps=0), Limits(1e-6, max_seconds=1e-4)]


def posed(example: Example, gates: Any, **settings: Any) -> pn.Problem:
    X = example.samples(N)
    Y = np.random.default_rng(1).standard_normal((N, example.outputs))
    return pn.formulate(
        example.block, X, Y, "relu", gates, n_gates=4, loss="squared", mask=example.mask(N), **{"beta": 0.05} | settings
    )


def objective(problem: pn.Problem, network: Any) -> float:
    """Of a network, by its own forward pass."""
    loss = problem.program.loss.value(relu_point(problem, network)[0]) * problem.units.value
    return float(loss) + problem.beta * float(network.penalty().detach())


def of_source(problem: pn.Problem) -> float:
    """Of the network that the gates came from."""
    assert problem.gates.network is not None
    return objective(problem, problem.network(problem.gates.network))


def of_none(problem: pn.Problem) -> float:
    return objective(problem, problem.network(problem.program.nobody))


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_no_worse_than_the_network_that_was_trained(example: Example) -> None:
    problem = posed(example, "trained")
    own = of_source(problem)
    assert own < of_none(problem)
    for limits in SHORT:
        found = solve_quietly(problem, "auto", limits)
        assert found.certificate.primal <= own * (1 + 1e-8)
        assert found.certificate.dual <= found.certificate.primal
    given = posed(example, problem.network(problem.gates.network))  # type: ignore[arg-type]
    assert of_source(given) == pytest.approx(own, rel=1e-9)
    assert solve_quietly(given, "auto", SHORT[-1]).certificate.primal <= own * (1 + 1e-8)


def test_none_is_better_than_a_bad_network() -> None:
    torch.manual_seed(0)
    X, Y = np.random.default_rng(0).standard_normal((2, N, 3))
    bad = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 3, bias=False)).double()
    with torch.no_grad():
        for weight in bad.parameters():
            weight *= 100
    problem = pn.formulate("mlp", X, Y, "relu", bad, loss="squared", beta=0.1, fit_intercept=False)
    found = solve_quietly(problem, "auto", SHORT[0])
    assert found.certificate.primal <= of_none(problem) < of_source(problem)


def test_a_start_is_not_lost_where_there_is_no_time() -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((N, 3, 2)), draw.standard_normal((N, 2))
    problem = pn.formulate("mixer", X, Y, "relu", 5, loss="squared", beta=0.05)
    start = solve_quietly(problem, "auto", Limits(1e-2, max_steps=3))
    again = solve_quietly(problem, "auto", SHORT[-1], start)
    assert again.certificate.primal <= start.certificate.primal * (1 + 1e-8)


class Forgetful(ConeBM):
    def init(self, program: Any, start: Factors | None) -> Any:
        return super().init(program, None)


class Late(ConeBM):
    def init(self, program: Any, start: Factors | None) -> Any:
        raise deadline.TooLong


@pytest.mark.parametrize("method", [Forgetful(), Late()])
def test_a_method_that_loses_its_start_does_not_lose_the_network(method: ConeBM) -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((N, 3, 2)), draw.standard_normal((N, 2))
    problem = pn.formulate("mixer", X, Y, "relu", "trained", n_gates=4, loss="squared", beta=0.05)
    found = solve_quietly(problem, method, SHORT[0])
    assert found.certificate.primal <= of_source(problem) * (1 + 1e-8)
    assert problem.gates.network is not None
    assert found.factors.n_neurons == problem.gates.network.n_neurons


def test_a_network_that_beats_all_with_these_gates_is_none_of_them() -> None:
    """Equal tokens leave FNet rows that are rounding alone: no unit decides on which side of them it is, one gate is
    left, and what was trained has other arrangements.  Its objective is below the bound of networks with that gate."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((30, 1, 3)), 4, axis=1)
    problem = pn.formulate(
        "fnet", X, (X[:, 0, 0] > 0).astype(int), "relu", "trained", n_gates=3, loss="softmax", beta=0.5
    )
    assert len(problem.patterns) == 1
    found = pn.solve(problem, tol=1e-4)
    assert of_source(problem) < (1 - 1e-3) * found.certificate.dual
    assert found.certificate.gap >= 0
    assert found.status is pn.Status.SOLVED
