"""The independent checker is right where the answer is known by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from provenet.verify import verify


def test_one_neuron_by_hand() -> None:
    """x = 1, y = 3, one linear neuron u = v: ½(u² − 3)² + β u² is least at u² = 3 − β, where it is 3β − β²/2."""
    beta, u = 0.5, math.sqrt(2.5)
    verdict = verify([[1.0]], [3.0], [[u]], [[u]], loss="squared", beta=beta)
    assert verdict.primal == pytest.approx(3 * beta - beta**2 / 2, rel=1e-14)
    assert verdict.relative_gap == pytest.approx(0, abs=1e-14)
    assert verdict.polar_max == pytest.approx(beta, rel=1e-14)
    worse = verify([[1.0]], [3.0], [[1.0]], [[1.0]], loss="squared", beta=beta)
    assert worse.dual <= 3 * beta - beta**2 / 2 < worse.primal


@pytest.mark.parametrize(
    ("loss", "Y", "at_zero"),
    [
        ("squared", [[1.0, 2.0], [0.0, -1.0]], 3.0),
        ("softmax", [0, 1], 2 * math.log(2)),
        ("logistic", [[0.0, 1.0], [1.0, 1.0]], 4 * math.log(2)),
        ("huber", [[0.5, 3.0], [0.0, 0.0]], 0.125 + 2.5),
    ],
)
def test_the_zero_network_is_optimal_from_beta_max_on(loss: str, Y: list, at_zero: float) -> None:
    X = np.array([[1.0, 0.0], [0.5, -2.0]])
    none = np.zeros((0, 2))
    gates = np.array([[1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
    small = verify(X, Y, none, none, none, loss=loss, beta=1e-3, gate_vectors=gates)
    assert small.primal == pytest.approx(at_zero, rel=1e-14)
    assert small.relative_gap > 0.1
    large = verify(X, Y, none, none, none, loss=loss, beta=small.polar_max, gate_vectors=gates)
    assert large.primal == pytest.approx(at_zero, rel=1e-14)
    assert large.relative_gap == pytest.approx(0, abs=1e-13)


def test_every_gate_of_the_problem_counts() -> None:
    """A gate the network does not use can be the one that would help."""
    X, Y = np.array([[1.0], [-1.0]]), np.array([[0.1], [2.0]])
    left, right, gates = np.zeros((1, 1)), np.zeros((1, 1)), np.array([[1.0], [-1.0]])
    alone = verify(X, Y, left, right, gates[:1], loss="squared", beta=0.1)
    assert alone.polar_max == pytest.approx(0.1, rel=1e-13)
    assert alone.relative_gap == pytest.approx(0, abs=1e-13)
    among_all = verify(X, Y, left, right, gates[:1], loss="squared", beta=0.1, gate_vectors=gates)
    assert among_all.polar_max == pytest.approx(2.0, rel=1e-13)
    assert among_all.relative_gap > 0.8


def test_weights_are_repetition_and_zero_leaves_out() -> None:
    rng = np.random.default_rng(0)
    X, Y, count = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), np.array([1, 0, 2, 3, 1, 1])
    network = rng.standard_normal((3, 3)), rng.standard_normal((3, 2)), rng.standard_normal((3, 3))
    weighted = verify(X, Y, *network, loss="huber", beta=0.3, sample_weight=count, fit_intercept=True)
    repeated = verify(X.repeat(count, 0), Y.repeat(count, 0), *network, loss="huber", beta=0.3, fit_intercept=True)
    assert weighted.primal == pytest.approx(repeated.primal, rel=1e-13)
    assert weighted.dual == pytest.approx(repeated.dual, rel=1e-13)


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(ValueError, match="Y"):
        verify(np.ones((3, 2)), np.ones((3, 1)), np.ones((1, 2)), np.ones((1, 2)), loss="squared", beta=1.0)


def test_nan_is_no_proof() -> None:
    with pytest.raises(ValueError, match="not finite"):
        verify([[1.0]], [3.0], [[math.nan]], [[1.0]], loss="squared", beta=1.0)


def test_a_good_softmax_fit_keeps_its_digits() -> None:
    """One sample, two classes, logits ±z: the loss and its conjugate are functions of s = 1/(1 + e^2z), here 1e-18."""
    z, beta = 20.0, 1e-12
    u = math.sqrt(z)
    verdict = verify([[1.0]], [0], [[u]], [[u, -u]], loss="softmax", beta=beta)
    s = math.exp(-2 * z)
    tau = min(1.0, beta / (s * math.sqrt(2)))
    assert verdict.primal == pytest.approx(s + beta / 2 * 3 * z, rel=1e-14)
    assert verdict.dual == pytest.approx(tau * s * (1 - math.log(tau * s)), rel=1e-10)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("loss", {"loss": "hinge"}),
        ("beta", {"beta": -1.0}),
        ("beta", {"beta": float("nan")}),
        ("delta", {"loss": "huber", "delta": -1.0}),
        ("sample_weight", {"sample_weight": [1.0, -1.0]}),
        ("Y", {"loss": "softmax", "Y": [0, -1]}),
        ("Y", {"loss": "softmax", "Y": [0.0, 0.5]}),
        ("Y", {"loss": "softmax", "Y": [[5.0, 5.0], [1.0, 0.0]]}),
        ("Y", {"loss": "logistic", "Y": [[0.3, 1.0], [0.0, 1.0]]}),
        ("Y", {"Y": [[float("nan"), 1.0], [0.0, 1.0]]}),
    ],
)
def test_what_no_verdict_can_be_about_is_refused(name: str, change: dict) -> None:
    none = np.zeros((0, 1))
    asked = {"X": [[1.0], [2.0]], "Y": np.ones((2, 2)), "loss": "squared", "beta": 1e5} | change
    with pytest.raises(ValueError, match=name):
        verify(first=none, second=np.zeros((0, 2)), **asked)
