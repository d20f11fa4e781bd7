"""A standardised problem is the problem of standardised data; its networks take raw ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.proofs.independent import second_opinion
from provenet.testing.examples import EXAMPLES
from provenet.verify import Data

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) * [1e5, 1e-3, 1.0] + [1e6, 0, 5]
Y = np.c_[X[:, 0] / 1e3 + 50, np.abs(X[:, 1]) * 1e3]
LABELS = np.arange(40) % 3


def by_hand(data: np.ndarray) -> np.ndarray:
    return (data - data.mean(0)) / data.std(0)


def by_medians(data: np.ndarray) -> np.ndarray:
    return (data - np.median(data, 0)) / (1.4826 * np.median(np.abs(data - np.median(data, 0)), 0))


@pytest.mark.parametrize("activation", ["gated_relu", "linear", "relu"])
@pytest.mark.parametrize("loss", ["squared", "huber", "softmax"])
def test_it_is_the_problem_of_standardised_data(activation: str, loss: str) -> None:
    raw, ready = {"softmax": (LABELS, LABELS), "squared": (Y, by_hand(Y)), "huber": (Y, by_medians(Y))}[loss]
    common: dict[str, Any] = {"activation": activation, "gates": 6, "loss": loss, "beta": 1.0}
    problem = pn.formulate("mlp", X, raw, standardize=True, **common)
    plain = pn.formulate("mlp", by_hand(X), ready, **common)
    solution, other = (pn.solve(each, tol=1e-6) for each in (problem, plain))
    assert solution.certificate.standardized
    assert not other.certificate.standardized
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-5)
    outputs = solution.network()(torch.tensor(X)).detach().numpy()
    expected = other.network()(torch.tensor(by_hand(X))).detach().numpy()
    if loss != "softmax":
        assert problem.scaling is not None
        expected = expected * problem.scaling.target_spread.numpy() + problem.scaling.target_mean.numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("activation", ["gated_relu", "linear", "relu"])
def test_it_is_proven_again_from_raw_data(activation: str) -> None:
    weight = RNG.uniform(0.5, 2, 40)
    problem = pn.formulate(
        "mlp", X, Y, activation=activation, gates=6, beta=1.0, standardize=True, sample_weight=weight
    )
    solution = pn.solve(problem, tol=1e-6)
    network, found = solution.network(), solution.certificate
    again = pn.certify(problem, network)
    assert (again.primal, again.standardized) == (pytest.approx(found.primal, rel=1e-12), True)
    alone = pn.certify(network, X, Y, loss="squared", beta=1.0, sample_weight=weight)
    assert alone.primal == pytest.approx(found.primal, rel=1e-12)
    assert alone.standardized
    if activation != "relu":  # ReLU alone is judged among all arrangements
        assert alone.dual == pytest.approx(found.dual, rel=1e-9)
    verdict = second_opinion(problem, network, Data(X, Y, weight))
    assert verdict.primal == pytest.approx(found.primal, rel=1e-12)
    assert verdict.relative_gap <= 1e-5
    shifted = second_opinion(problem, network, Data(X + np.array([1e5, 0, 0]), Y, weight))
    assert shifted.primal > 1.1 * found.primal  # it does look at raw numbers


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ("mlp", "token_map")])
def test_every_block(name: str) -> None:
    example = EXAMPLES[name][0]
    block, raw = example.block, torch.tensor(example.samples(15)) * 30 + 7
    targets = RNG.standard_normal((15, example.outputs)) * 5 + 20
    problem = pn.formulate(block, raw, targets, gates=2, beta=0.1, standardize=True)
    solution = pn.solve(problem, tol=1e-3)
    network = solution.network()
    inner = problem.network(solution.factors)
    said = inner(problem.X) * problem.scaling.target_spread + problem.scaling.target_mean
    torch.testing.assert_close(network(raw), said)
    assert pn.certify(network, raw, targets, loss="squared", beta=0.1).primal == pytest.approx(
        solution.certificate.primal, rel=1e-9
    )
    verdict = second_opinion(problem, network, Data(raw.numpy(), targets))
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_masked_tokens_stay_out() -> None:
    tokens = RNG.standard_normal((12, 4, 2)) * 10 + 3
    mask = RNG.random((12, 4)) < 0.7
    mask[:, 0] = True
    targets = tokens[..., :1] * 2 + 100
    spoilt = np.where(mask[..., None], tokens, 1e9)
    settings: dict[str, Any] = {"gates": 3, "beta": 0.5, "readout": "tokens", "mask": mask, "standardize": True}
    problem = pn.formulate("attention", spoilt, np.where(mask[..., None], targets, -5.0), **settings)
    solution = pn.solve(problem, tol=1e-4)
    assert float(problem.loss.target[torch.tensor(mask)].std(correction=0)) == pytest.approx(1)
    outputs = solution.network()(torch.tensor(spoilt), torch.tensor(mask))
    assert not outputs[torch.tensor(~mask)].any()
    verdict = second_opinion(problem, solution.network(), Data(spoilt, targets, None, mask))
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-9)
    module = pn.certify(
        solution.network(), (torch.tensor(spoilt), torch.tensor(targets), torch.tensor(mask)), loss="squared", beta=0.5
    )
    assert module.primal == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_grown_gates_standardise_once() -> None:
    problem = pn.formulate("mlp", X, Y, gates="grow", n_gates=12, beta=1.0, standardize=True)
    solution = pn.solve(problem, tol=1e-4)
    assert solution.problem.scaling is problem.scaling
    again = pn.certify(solution.network(), X, Y, loss="squared", beta=1.0)
    assert again.primal == pytest.approx(solution.certificate.primal, rel=1e-9)


def test_a_better_relu_network_takes_raw_data_too() -> None:
    problem = pn.formulate("mlp", X, Y, "relu", gates=1, beta=0.1, standardize=True)
    network = pn.solve(problem, tol=1e-4).network()
    better = pn.certify(network, X, Y, loss="squared", beta=0.1).improve()
    assert isinstance(better, pn.nn.Standardised)
    primal = [pn.certify(each, X, Y, loss="squared", beta=0.1).primal for each in (network, better)]
    assert primal[1] < primal[0]


def test_a_network_that_standardises_is_none_of_a_plain_problem() -> None:
    standardised = pn.formulate("mlp", X, Y, gates=3, beta=1.0, standardize=True)
    network = pn.solve(standardised).network()
    with pytest.raises(ValueError, match="it standardises its samples"):
        pn.certify(pn.formulate("mlp", X, Y, gates=3, beta=1.0), network)
    with pytest.raises(ValueError, match="no 'softmax' is of those"):
        pn.certify(network, X, LABELS, loss="softmax", beta=1.0)


def test_a_start_and_gates_from_such_a_network() -> None:
    problem = pn.formulate("mlp", X, Y, gates=5, beta=1.0, standardize=True)
    network = pn.solve(problem, tol=1e-6).network()
    assert pn.solve(problem, method="bm", start=network, tol=1e-5).steps < 50
    same = pn.formulate("mlp", X, Y, gates=network, beta=1.0, standardize=True)
    assert pn.certify(same, network).holds(1e-4)
