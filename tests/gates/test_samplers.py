"""Every sampler × every block: the contract, and what is said of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.formulation.gates import sight_of
from provenet.formulation.trainee import BlockTrainee
from provenet.gates import trained as trained_gates
from provenet.gates.between import between_gates
from provenet.gates.samplers import SAMPLERS
from provenet.gates.trained import train
from provenet.testing import check_sampler
from provenet.testing.examples import Example, examples
from provenet.variable import Factors

EVERY = [(example, readout) for example in examples() for readout in example.readouts]
N = 8
NAMES = [f"{example}-{readout}" for example, readout in EVERY]


def data(example: Example, readout: str, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    X = example.samples(n)
    shape = (n, example.block.on(torch.from_numpy(X), example.outputs).X.shape[1]) if readout == "tokens" else (n,)
    return X, np.random.default_rng(1).standard_normal((*shape, example.outputs))


def trainee_of(problem: pn.Problem) -> BlockTrainee:
    return BlockTrainee(problem.on_data, problem.program.loss, problem.program.beta, problem.units)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize(("example", "readout"), EVERY, ids=NAMES)
def test_contract(example: Example, readout: str, name: str) -> None:
    X, Y = data(example, readout)
    activation = "relu" if readout == "mean" else "gated_relu"
    check_sampler(name, example.block, X, Y, activation, beta=0.1, readout=readout, mask=example.mask(N))


def trained_network(problem: pn.Problem, count: int) -> tuple[float, Any, Any, Any]:
    """(objective, first, second, group) of the network whose units are the gates, in the program's units."""
    sight = sight_of(trainee_of(problem))
    group = torch.arange(len(sight.groups)).repeat_interleave(count)
    brief = problem.activation != "relu" and problem.program.loss.labels
    first, second, bias = train(sight.trainee, group, np.random.default_rng(0), brief)
    loss, _ = sight.trainee.slopes(group)(first.numpy(), second.numpy(), bias.numpy())
    objective = loss + problem.program.beta * 0.5 * float(first.square().sum() + second.square().sum())
    return objective, first, second, group


@pytest.mark.parametrize(("example", "readout"), EVERY, ids=NAMES)
def test_the_trained_network_is_a_point_of_the_program(example: Example, readout: str) -> None:
    X, Y = data(example, readout)
    settings: dict[str, Any] = {"beta": 0.05, "readout": readout, "mask": example.mask(N)}
    problem = pn.formulate(example.block, X, Y, gates="trained", n_gates=4, **settings)
    objective, first, second, group = trained_network(problem, 4)
    # the network itself is a point of the program: each neuron that is open somewhere, behind the gate with its pattern
    opened = torch.stack([rows.patterns(first)[0].any(1) for rows in problem.on_data.groups])
    alive = opened[group, torch.arange(len(group))]
    gate = problem._find_gates(first[alive], group[alive])
    inside = problem.program.objective_factors(Factors(first[alive], second[alive], gate))
    assert float(inside) <= objective * (1 + 1e-9)


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_optimum_behind_trained_gates_is_no_worse(loss: str, activation: str) -> None:
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    problem = pn.formulate(
        "mlp", X, y, activation, gates="trained", n_gates=8, loss=loss, beta=0.3, sample_weight=weight
    )
    objective, *_ = trained_network(problem, 8)
    assert objective < float(problem.program.loss.value(torch.zeros_like(problem.program.loss.target)))
    solved = pn.solve(problem, tol=1e-3)
    assert solved.certificate.primal <= objective * problem.units.value * (1 + 1e-3)


def test_hyperplanes_lie_between_rows_of_different_classes() -> None:
    """Two clouds that only hyperplanes near the middle tell apart, far from the origin: with a column of ones."""
    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0], 30)
    X = np.column_stack([10 + 2 * side, rng.standard_normal(60)]) + 0.1 * rng.standard_normal((60, 2))
    problem = pn.formulate(pn.MLP(fit_intercept=True), X, (side > 0).astype(float), gates="between", n_gates=1)
    opened = problem.patterns[0]
    assert bool(opened[:30].all()) != bool(opened[30:].all())
    assert bool(opened[:30].any()) != bool(opened[30:].any())


def test_without_a_column_of_ones_hyperplanes_pass_between_directions() -> None:
    one, other = torch.tensor([[1.0, 0.1]]).double(), torch.tensor([[5.0, -0.5]]).double()
    rows = pn.MLP().on(torch.cat([one, other]), 1).groups[0]
    _, patterns = between_gates(rows, torch.tensor([[0.0], [1.0]]), 2, seed=0)
    assert all(bool(pattern[0]) != bool(pattern[1]) for pattern in patterns)


def test_tokens_have_targets_of_their_own() -> None:
    """Only one token of each sample has a target that differs: a hyperplane lies next to one of these."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3, 2))
    Y = np.zeros((20, 3, 1))
    Y[:, 1] = 1.0
    X[:, 1] += 50.0
    rows = pn.FNO().on(torch.from_numpy(X), 1, "tokens").groups[0]
    assert len(rows) == 60
    problem = pn.formulate(pn.TokenMap(lambda x: x), X, Y, gates="between", n_gates=4, readout="tokens", beta=0.1)
    patterns = problem.patterns.view(-1, 20, 3)
    assert bool((patterns[:, :, 1].all(1) | ~patterns[:, :, 1].any(1)).all())


def test_steps_follow_the_size_of_the_problem_but_for_relu_and_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = [], trained_gates.descended

    def watched(trainee: Any, group: Any, start: Any, steps: int) -> Any:
        seen.append(steps)
        return real(trainee, group, start, 1)

    monkeypatch.setattr(trained_gates, "descended", watched)
    draw = np.random.default_rng(0)
    labels, numbers = "logistic", "squared"
    for n, activation, loss in (
        (60, "gated_relu", labels),
        (2000, "gated_relu", labels),
        (60, "relu", labels),
        (60, "gated_relu", numbers),
    ):
        X = draw.standard_normal((n, 20))
        pn.formulate("mlp", X, (X[:, :2] > 0).astype(float), activation, gates="trained", n_gates=50, loss=loss)
    assert seen == [30, 100, 100, 100]
