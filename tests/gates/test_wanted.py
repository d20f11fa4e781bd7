"""What can be asked for as gates: names, numbers, vectors, networks; and what cannot."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import provenet as pn
from provenet.blocks import block_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
y = (X[:, 0] > X[:, 1] ** 2).astype(float)
ONES = pn.MLP(fit_intercept=True)


def torch_mlp(d: int = 3, hidden: int = 6, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, hidden, bias=bias), nn.ReLU(), nn.Linear(hidden, 1))


def vectors_of(problem: pn.Problem) -> Any:
    assert problem.gate_vectors is not None
    return problem.gate_vectors


def test_a_number_means_gaussian_gates() -> None:
    by_number = pn.formulate("mlp", X, y, gates=7, seed=3)
    by_name = pn.formulate("mlp", X, y, gates="gaussian", n_gates=7, seed=3)
    assert torch.equal(vectors_of(by_number), vectors_of(by_name))
    assert by_number.statement.sampler == "gaussian"
    assert pn.formulate("mlp", X, y, gates=vectors_of(by_name)).statement.sampler == "given"


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ("nearby", "gates: 'nearby' is unknown; choose one of 'auto', 'gaussian', 'between', 'trained'"),
        (0, "at least one gate"),
        (np.ones((2, 5)), "gate vectors need shape"),
        (nn.Linear(3, 1), "not those of Linear"),
        (pn.nn.CNN(1, 1), "is a provenet.nn.CNN, but block 'mlp'"),
        (pn.nn.MLP(4, 1), "first layer has 4 weights a neuron; on this X block 'mlp' has 3"),
        (pn.nn.MLP(3, 1, activation="linear"), "linear"),
        (torch_mlp(), "has biases"),
        (nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)), "no two-layer network"),
    ],
)
def test_wrong_gates_are_refused_by_name(gates: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pn.formulate("mlp", X, y, gates=gates)


@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
def test_the_units_of_a_torch_network_are_gates(activation: str) -> None:
    """With biases, which are the weights of the column of ones; whatever the last layer adds."""
    network = torch_mlp()
    problem = pn.formulate(ONES, X, y, activation, gates=network)
    weights = torch.cat([network[0].weight, network[0].bias[:, None]], dim=1).detach().double()  # type: ignore[arg-type]
    opened = torch.from_numpy(np.column_stack([X, np.ones(30)])) @ weights.T >= 0
    assert {tuple(row.tolist()) for row in opened.T} == {tuple(row.tolist()) for row in problem.patterns}
    without = pn.formulate(ONES, X, y, activation, gates=torch_mlp(bias=False))
    assert bool((vectors_of(without)[:, -1] == 0).all())


@pytest.mark.parametrize(
    ("module", "sample"),
    [
        (pn.nn.MLP(3, 2, n_gates=5), (3,)),
        (pn.nn.CNN(2, 2, n_gates=4, kernel=2), (2, 4, 3)),
        (pn.nn.SelfAttention(2, 2, n_gates=4), (3, 2)),
        (pn.nn.BFNO(3, 4, 2, 2, n_gates=3), (3, 4)),
        (pn.nn.Mixer(3, 2, 2, n_gates=3), (3, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_network_of_ours_is_certified_behind_its_own_gates(module: Any, sample: tuple[int, ...]) -> None:
    samples = np.random.default_rng(1).standard_normal((6, *sample))
    problem = pn.formulate(block_of(module), samples, np.ones((6, 2)), gates=module)
    assert pn.certify(problem, copy.deepcopy(module).double()).scope == "fixed_gates"


def test_a_kernel_of_another_shape_is_refused() -> None:
    images = np.random.default_rng(1).standard_normal((6, 1, 4, 4))
    with pytest.raises(ValueError, match="their settings differ"):
        pn.formulate(pn.CNN(kernel=(2, 3)), images, np.ones(6), gates=pn.nn.CNN(1, 1, kernel=(3, 2)))


def test_units_that_graze_a_row_are_moved_off_it() -> None:
    """A dead unit is dropped, one through two samples moved: its pattern off these samples stays."""
    network = pn.nn.MLP(3, 1, activation="relu", n_gates=3).double()
    normal = np.linalg.svd(X[:2])[2][-1]  # orthogonal to two samples, but for rounding
    with torch.no_grad():
        network.first[0] = torch.from_numpy(normal)
        network.first[1] = 0.0
    problem = pn.formulate("mlp", X, y, "relu", gates=network)
    away = torch.from_numpy(X[2:] @ normal >= 0)
    assert any(torch.equal(pattern[2:], away) for pattern in problem.patterns)
    assert len(problem.patterns) == 2


@pytest.mark.parametrize("gates", ["between", "trained"])
@pytest.mark.parametrize("activation", ["gated_relu", "relu"])
def test_nothing_to_tell_apart(gates: str, activation: str) -> None:
    """Rows all equal, targets all equal: Gaussian gates, and a word where none could be found between rows."""
    same, flat = np.ones((10, 3)), np.zeros(30)
    for samples, targets in ((same, y[:10]), (X, flat)):
        if gates == "between":
            with pytest.warns(UserWarning, match="the gates are Gaussian ones instead"):
                problem = pn.formulate("mlp", samples, targets, activation, gates=gates, n_gates=4)
        else:
            problem = pn.formulate("mlp", samples, targets, activation, gates=gates, n_gates=4)
        assert pn.solve(problem, tol=1e-3).certificate.holds(1e-3)


@pytest.mark.parametrize("gates", ["between", "trained"])
def test_few_samples_and_one_class(gates: str) -> None:
    for n, labels in ((1, [1]), (2, [0, 1]), (10, [1] * 10)):
        problem = _quietly(n, labels, gates)
        assert pn.solve(problem, tol=1e-3).certificate.holds(1e-3)


def _quietly(n: int, labels: list[int], gates: str) -> pn.Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pn.formulate("mlp", X[:n], np.eye(2)[labels], gates=gates, n_gates=5, loss="softmax", beta=0.1)
