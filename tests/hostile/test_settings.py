"""Bad settings: an error that names the argument; extreme ones: the right answer or an honest status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn

Fit = Callable[..., pn.Solution]


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, -np.inf, "1", None, True, 1e-323])
def test_bad_beta(X: np.ndarray, Y: np.ndarray, beta: Any) -> None:
    with pytest.raises(ValueError, match=r"^beta: "):
        pn.formulate("mlp", X, 100 * Y, beta=beta)
    problem = pn.formulate("mlp", X, 100 * Y)
    with pytest.raises(ValueError, match=r"^beta: "):
        problem.with_beta(beta)


@pytest.mark.parametrize("beta", [1, np.float32(1), np.int64(1), np.float64(1)])
def test_any_number_is_a_beta(fit: Fit, X: np.ndarray, Y: np.ndarray, beta: Any) -> None:
    assert fit(X, Y, beta=beta).problem.beta == 1.0


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("factor", [1.0, 1 + 1e-9, 1e10, 1e290])
def test_from_beta_max_on_the_zero_network_is_certified(fit: Fit, X: np.ndarray, loss: str, factor: float) -> None:
    targets = (X[:, 0] > 0).astype(int)
    solution = fit(X, targets, loss=loss, ratio=factor, solve={"tol": 1e-9})
    assert solution.status is pn.Status.SOLVED
    assert solution.network().first.shape[0] == 0
    assert solution.certificate.holds(1e-12)


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_just_below_beta_max_zero_is_not_optimal(fit: Fit, X: np.ndarray, loss: str) -> None:
    targets = (X[:, 0] > 0).astype(int)
    solution = fit(X, targets, loss=loss, ratio=0.99, solve={"tol": 1e-10, "max_steps": 3000})
    assert solution.network().first.shape[0] > 0
    zero = pn.certify(solution.problem, solution.problem.network(pn.variable.Factors.empty(3, 1 + (loss == "softmax"))))
    assert not zero.holds(1e-7)


@pytest.mark.parametrize("beta", [1e-8, 1e-20, 1e-100, 1e-200, 1e-300])
@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
def test_a_tiny_beta_is_honest(fit: Fit, X: np.ndarray, beta: float, loss: str) -> None:
    targets = (X[:, 0] > 0).astype(int)
    solution = fit(X, targets, beta=beta, loss=loss, solve={"max_steps": 30})
    assert solution.status is not pn.Status.SOLVED or solution.certificate.holds(1e-5)


def test_interpolation_with_a_tiny_beta_is_honest(fit: Fit, rng: np.random.Generator, Y: np.ndarray) -> None:
    """More features than samples: the loss can vanish, and all of the objective is β times the penalty."""
    wide = rng.standard_normal((5, 30))
    for beta in (1e-6, 1e-60, 1e-160, 1e-300):
        solution = fit(wide, Y[:5], beta=beta, solve={"max_steps": 100})  # the fixture checks the certificate
        assert solution.certificate.gap >= -1e-12 * solution.certificate.primal


@pytest.mark.parametrize(
    "gates",
    [0, -3, True, 1.5, None, "all", [], [[1.0, 2.0]], [[1.0, 2.0, 3.0], [4.0]], np.zeros((0, 3)), [[1j, 0, 0]]],
)
def test_bad_gates(X: np.ndarray, Y: np.ndarray, gates: Any) -> None:
    with pytest.raises(ValueError, match=r"^gates: "):
        pn.formulate("mlp", X, Y, gates=gates)


def test_a_word_for_gates_is_told_the_one_there_is(X: np.ndarray, Y: np.ndarray) -> None:
    for activation in ("relu", "gated_relu"):
        with pytest.raises(ValueError, match=r"^gates: 'every' is unknown; .*'all'"):
            pn.formulate("mlp", X, Y, activation, gates="every")


def test_one_gate(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    assert fit(X, Y, gates=1).status is pn.Status.SOLVED
    assert fit(X, Y, gates=np.int64(1)).problem.gate_vectors.shape == (1, 3)


def test_an_open_gate_is_the_linear_network(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    """A gate of zeros is open everywhere, since 0 ≥ 0."""
    gated, linear = fit(X, Y, beta=1.0, gates=np.zeros((1, 3))), fit(X, Y, beta=1.0, activation="linear")
    assert gated.certificate.primal == pytest.approx(linear.certificate.primal, rel=2e-5)
    assert (gated.certificate.scope, linear.certificate.scope) == ("fixed_gates", "linear")


def test_closed_and_doubled_gates(fit: Fit, rng: np.random.Generator, Y: np.ndarray) -> None:
    positive = np.abs(rng.standard_normal((20, 3)))
    closed, opened = [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]
    assert fit(positive, Y, gates=[closed]).status is pn.Status.SOLVED  # nothing but zero can be done
    several = fit(positive, Y, beta=1.0, gates=[closed, opened, [2.0, 2.0, 2.0], opened])
    assert several.problem.gate_vectors.tolist() == [closed, opened]  # closed ones stay: a network may have them
    assert several.certificate.primal == pytest.approx(fit(positive, Y, beta=1.0, gates=[opened]).certificate.primal)


def test_gates_through_the_data(fit: Fit) -> None:
    """Gates orthogonal to samples: an exact tie is open; where rounding decides, the problem is refused."""
    whole = np.stack(np.meshgrid(np.arange(-3.0, 4), np.arange(-3.0, 4)), axis=-1).reshape(-1, 2)
    across = whole[np.abs(whole).sum(1) > 0]
    exact = fit(whole, np.sin(whole[:, 0]), gates=across, solve={"max_steps": 100})
    assert bool(exact.problem.patterns[:, (whole == 0).all(1)].all())
    with pytest.raises(ValueError, match=r"^gates: gate .* row"):
        fit(whole / 3, np.sin(whole[:, 0]), gates=across * 0.7)


def test_more_gates_than_patterns(fit: Fit) -> None:
    solution = fit(np.array([[1.0], [-2.0]]), [1.0, 2.0], gates=1000)
    assert solution.problem.gate_vectors.shape[0] == 2
    assert solution.status is pn.Status.SOLVED


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("loss", {"loss": "hinge"}),
        ("loss", {"loss": None}),
        ("loss", {"loss": 3}),
        ("activation", {"activation": "tanh"}),
        ("activation", {"activation": None}),
        ("block", {"block": "nonsense"}),
        ("block", {"block": None}),
        ("readout", {"readout": "last"}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": "a"}),
        ("seed", {"seed": 1.5}),
        ("loss_settings", {"loss": "huber", "loss_settings": {"dleta": 1.0}}),
        ("loss_settings", {"loss": "huber", "loss_settings": {"delta": "1"}}),
        ("huber", {"loss": "huber", "loss_settings": {"delta": 0.0}}),
        ("huber", {"loss": "huber", "loss_settings": {"delta": np.nan}}),
    ],
)
def test_bad_settings(X: np.ndarray, Y: np.ndarray, name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        pn.formulate(**({"block": "mlp", "X": X, "Y": Y} | settings))


@pytest.mark.parametrize("tol", [0, -1e-3, np.nan, "a", None])
def test_bad_tol(X: np.ndarray, Y: np.ndarray, tol: Any) -> None:
    with pytest.raises(ValueError, match=r"^tol: "):
        pn.solve(pn.formulate("mlp", X, Y), "admm", tol=tol)


def test_the_seed_is_the_problem(X: np.ndarray, Y: np.ndarray) -> None:
    one, same, other = (pn.formulate("mlp", X, Y, gates=5, seed=seed).gate_vectors for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
