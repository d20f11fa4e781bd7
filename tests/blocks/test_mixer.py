"""The MLP-Mixer: its module against AT eq. 17 in numpy, its operator and optimum, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.operators.blocks import mixer as mixer_operators
from provenet.testing import check_block, check_operator
from provenet.variable import Factors

ACTIVATIONS = ("linear", "gated_relu")
READOUTS = ("mean", "tokens")


def tokens(n: int, s: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, s, d))


def targets(X: np.ndarray, c: int, readout: str) -> np.ndarray:
    shape = X.shape[:2] if readout == "tokens" else X.shape[:1]
    return np.random.default_rng(9).standard_normal((*shape, c))


def problem_of(
    X: np.ndarray, activation: str, readout: str, c: int = 2, gates: int = 3, ratio: float = 0.1
) -> pn.Problem:
    problem = pn.formulate("mixer", X, targets(X, c, readout), activation, gates, beta=1.0, readout=readout)
    return problem.with_beta(ratio * problem.beta_max)


def by_hand(X: np.ndarray, network: pn.nn.Mixer) -> np.ndarray:
    """AT eq. 17: Σ_j (1{G_jX ≥ 0} ∘ W₁ⱼX) W₂ⱼ."""
    _, s, d = X.shape
    first, second = network.first.detach().numpy(), network.second.detach().numpy()
    out = 0
    for j in range(len(first)):
        W1, W2 = first[j].reshape(s, s), second[j].reshape(d, -1)
        H = np.stack([W1 @ x for x in X])
        if network.gates is not None:
            G = network.gates[j].numpy().reshape(s, s)
            H = np.stack([G @ x for x in X]).__ge__(0) * H
        out = out + H @ W2
    return out.mean(1) if network.readout == "mean" else out


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("s", "d"), [(4, 3), (1, 2), (3, 1)])
def test_the_module_is_the_papers_formula(activation: str, readout: str, s: int, d: int) -> None:
    X = tokens(5, s, d)
    network = pn.nn.Mixer(s, d, 2, rank=2, n_gates=3, activation=activation, readout=readout).double()
    with torch.no_grad():
        np.testing.assert_allclose(network(torch.from_numpy(X)).numpy(), by_hand(X, network), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("s", "d"), [(3, 2), (1, 3), (2, 10)])  # ten features: more than are gated at a time
def test_contracts(activation: str, readout: str, s: int, d: int) -> None:
    X = tokens(5, s, d)
    check_block(pn.Mixer(), X, activation, outputs=2, readout=readout)
    check_operator(problem_of(X, activation, readout).program.operator)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch, activation: str, readout: str) -> None:
    """A sample at a time, and X cast batch by batch."""
    for budget in ("BATCH", "KEPT_INPUTS", "MOST_KEPT"):
        monkeypatch.setattr(batches, budget, 0)
    check_operator(problem_of(tokens(4, 2, 3), activation, readout).program.operator)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_optimum_is_cvxpys(activation: str, readout: str) -> None:
    problem = problem_of(tokens(6, 2, 2), activation, readout)
    ours, reference = pn.solve(problem, tol=1e-6), pn.solve(problem, "cvx", tol=1e-5)
    assert ours.certificate.holds(1e-6)
    assert ours.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-5)
    assert pn.certify(problem, ours.network()).primal == pytest.approx(ours.certificate.primal, rel=1e-10)


def test_linear_with_mean_sees_only_the_column_sums_of_w1() -> None:
    """p falls from s² to s, the optimum stays, and W₁'s rows come out equal (least penalty for their sum)."""
    problem = problem_of(tokens(30, 4, 3), "linear", "mean")
    operator = problem.program.operator
    reduced = operator.reduced()
    assert reduced is not None
    small, basis = reduced
    assert (operator.p, small.p) == (16, 4)
    torch.testing.assert_close(basis.T @ basis, torch.eye(4, dtype=torch.float64))
    stack = torch.randn(small.stack_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(operator.forward(basis @ stack), small.forward(stack))
    torch.testing.assert_close(
        operator.adjoint(torch.ones(30, 2).double()), basis @ small.adjoint(torch.ones(30, 2).double())
    )
    check_operator(small)
    W1 = pn.solve(problem, tol=1e-6).network().first.detach().view(-1, 4, 4)
    torch.testing.assert_close(W1, W1[:, :1].expand_as(W1))


def test_nothing_of_the_features_size_is_kept() -> None:
    """n·P·d·s² gated features would be 58 times X and the gates together."""
    X = torch.randn(40, 8, 6)
    operator = pn.formulate("mixer", X, torch.ones(40, 2), gates=5, readout="mean").program.operator
    assert isinstance(operator, mixer_operators.MixerMeanOperator)
    operator.adjoint(operator.forward(operator.new_stack()))
    held = sum(value.numel() for value in vars(operator).values() if isinstance(value, torch.Tensor))
    assert held <= 2 * X.numel() + 5 * X.numel()


def test_no_neurons_are_the_zero_network() -> None:
    operator = problem_of(tokens(4, 3, 2), "gated_relu", "mean").program.operator
    empty = Factors.empty(operator.p, operator.q)
    left, right = operator.adjoint_factors(torch.ones(operator.output_shape, dtype=torch.float64), empty)
    assert left.shape == (0, operator.p)
    assert right.shape == (0, operator.q)
    network = pn.Mixer().network(empty, torch.zeros(0, operator.p), "mean")
    assert torch.equal(network(torch.randn(4, 3, 2)), torch.zeros(4, 2, dtype=torch.float64))


def test_dead_features_decide_nothing() -> None:
    """A feature that is zero throughout lies on every gate's plane, in any order of summation: the gate is open."""
    X = tokens(5, 3, 4)
    X[:, :, 2] = 0
    (rows,) = pn.Mixer().on(torch.from_numpy(X), 1).groups
    patterns, torn = rows.patterns(torch.randn(6, 9, dtype=torch.float64))
    assert not bool(torn.any())
    assert bool(patterns.view(6, 5, 3, 4)[..., 2].all())
    check_block(pn.Mixer(), X, "gated_relu", outputs=2)


def test_a_gate_on_a_row_of_the_data_is_refused() -> None:
    X = tokens(5, 2, 2)
    gate = np.zeros((2, 2))
    gate[0] = X[3, :, 1][::-1] * np.array([1, -1])  # orthogonal to a column of X but for rounding
    with pytest.raises(ValueError, match="gates: gate 0 passes so close"):
        pn.formulate("mixer", X, np.ones((5, 1)), gates=gate.reshape(1, 4) * (1 + 1e-15))


@pytest.mark.parametrize("shape", [(5, 4), (5, 2, 3, 4)])
def test_wrong_rank_of_x(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"X: block 'mixer' needs tokens of shape \(n, s, d\), got"):
        pn.formulate("mixer", np.ones(shape), np.ones((5, 1)))


def test_a_network_of_another_size_is_refused() -> None:
    problem = problem_of(tokens(5, 3, 2), "linear", "mean")
    with pytest.raises(ValueError, match="network: first has 16 and second 4 weights a neuron; this problem needs 9"):
        pn.certify(problem, pn.nn.Mixer(4, 2, 2, activation="linear"))
    with pytest.raises(ValueError, match="network: readout is tokens"):
        pn.certify(problem, pn.nn.Mixer(3, 2, 2, activation="linear", readout="tokens"))
