"""Bad and strange data: the right answer, or an error that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import provenet as pn

Fit = Callable[..., pn.Solution]


def spoiled(array: np.ndarray, value: float) -> np.ndarray:
    array = array.copy()
    array.flat[3] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(fit: Fit, X: np.ndarray, Y: np.ndarray, value: float) -> None:
    with pytest.raises(ValueError, match=r"^X: .*(NaN|infinity).*index \(1, 0\)"):
        fit(spoiled(X, value), Y)
    with pytest.raises(ValueError, match=r"^Y: .*(NaN|infinity).*index \(1, 1\)"):
        fit(X, spoiled(Y, value))
    with pytest.raises(ValueError, match=r"^sample_weight: .*(NaN|infinity)"):
        fit(X, Y, sample_weight=spoiled(np.ones(20), value))
    with pytest.raises(ValueError, match=r"^gates: .*(NaN|infinity)"):
        fit(X, Y, gates=spoiled(X, value))


def test_wrong_shapes(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    wrong: list[tuple[str, Any, Any]] = [
        ("X", X[:0], Y[:0]),
        ("X", X[:, :0], Y),
        ("X", X[:, 0], Y),
        ("X", X[:, :, None], Y),
        ("X", None, Y),
        ("X", [[1, 2], [3]], [1, 2]),
        ("X", [["a", "b"]], [1]),
        ("X", X + 0j, Y),
        ("Y", X, Y[:, :0]),
        ("Y", X, Y[:5]),
        ("Y", X, Y[:, :, None]),
        ("Y", X, 3.0),
        ("Y", X, None),
        ("Y", X, ["a"] * 20),
    ]
    for name, samples, targets in wrong:
        with pytest.raises(ValueError, match=rf"^{name}: "):
            pn.formulate("mlp", samples, targets)


def test_one_sample(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    """One sample, squared loss: the optimum is known, ‖Y‖β/‖x‖ − ½(β/‖x‖)²."""
    x, y = X[:1], Y[:1]
    solution = fit(x, y, ratio=0.25, gates=3, solve={"tol": 1e-9})
    t = solution.problem.beta / np.linalg.norm(x)
    assert solution.status is pn.Status.SOLVED
    assert solution.certificate.primal == pytest.approx(np.linalg.norm(y) * t - t * t / 2, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("value", [0, 1])
def test_constant_target(fit: Fit, X: np.ndarray, loss: str, value: int) -> None:
    solution = fit(X, np.full(20, value), loss=loss)
    assert solution.status is pn.Status.SOLVED
    if loss in ("squared", "huber") and value == 0:
        assert solution.certificate.primal == 0
        assert solution.network().first.shape[0] == 0


def test_zero_data(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    solution = fit(0 * X, Y)
    assert solution.status is pn.Status.SOLVED
    assert solution.certificate.primal == pytest.approx(0.5 * (Y**2).sum())
    assert solution.problem.beta_max == 0


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("activation", ["linear", "gated_relu", "relu"])
def test_equal_rows_leave_nothing_to_a_free_intercept(loss: str, activation: str) -> None:
    """What pulls then is rounding, of which no share is a β: it was taken for β_max, and nothing could be proven."""
    y = np.array([0, 2, 2, 1, 0, 2, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 2, 1, 1, 1])
    posed = {"activation": activation, "loss": loss, "fit_intercept": "free", "beta": 1.0, "gates": 5}
    for X in (np.ones((20, 3)), np.full((20, 3), 1e9 / 3), np.full((20, 3), 1e-9 / 7)):
        problem = pn.formulate("mlp", X, np.eye(3)[y], **posed)
        assert problem.beta_max == 0
    fitted = pn.ProvenClassifier if loss in ("softmax", "logistic") else pn.ProvenRegressor
    estimator = fitted(activation=activation, loss=loss, beta="0.01max").fit(X, y)
    assert estimator.certificate_.holds(1e-9)
    assert not len(estimator.network_.first)


def test_zero_columns_change_nothing(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    gates = np.random.default_rng(1).standard_normal((5, 3))
    padded, padded_gates = np.insert(X, 1, 0, axis=1), np.insert(gates, 1, 7.0, axis=1)
    plain, with_zero = fit(X, Y, beta=1.0, gates=gates), fit(padded, Y, beta=1.0, gates=padded_gates)
    assert with_zero.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-5)
    assert float(with_zero.network().first[:, 1].detach().abs().max()) < 1e-9


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_duplicated_rows_are_weights(fit: Fit, X: np.ndarray, Y: np.ndarray, loss: str) -> None:
    count = np.arange(20) % 3
    repeated = fit(X.repeat(count, 0), Y.repeat(count, 0), beta=2.0, loss=loss)
    weighted = fit(X, Y, beta=2.0, loss=loss, sample_weight=count)
    assert weighted.status is repeated.status is pn.Status.SOLVED
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=2e-5)


def test_few_samples_many_features(fit: Fit, rng: np.random.Generator, Y: np.ndarray) -> None:
    solution = fit(rng.standard_normal((3, 200)), Y[:3], ratio=0.3, solve={"tol": 1e-4})
    assert solution.status is pn.Status.SOLVED


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("x_scale", [1e-150, 1e150])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_extreme_x(fit: Fit, X: np.ndarray, loss: str, x_scale: float, fit_intercept: bool) -> None:
    targets = (X[:, 0] > 0).astype(int)
    block = pn.MLP(fit_intercept=fit_intercept)
    solution = fit(X * x_scale, targets, loss=loss, block=block)
    assert solution.status is pn.Status.SOLVED
    if not fit_intercept:  # the same problem in other units has the same answer
        assert solution.certificate.primal == pytest.approx(fit(X, targets, loss=loss).certificate.primal, rel=2e-5)


@pytest.mark.parametrize("x_scale", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("y_scale", [1e-150, 1e150])
def test_extreme_y(fit: Fit, X: np.ndarray, Y: np.ndarray, x_scale: float, y_scale: float) -> None:
    solution = fit(X * x_scale, Y * y_scale)
    assert solution.status is pn.Status.SOLVED
    expected = fit(X, Y).certificate.primal
    assert solution.certificate.primal / y_scale / y_scale == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("y_scale", [1e-320, 1e-200, 1e-170, 1e160, 1e300])
def test_an_objective_beyond_float64_is_refused(X: np.ndarray, Y: np.ndarray, y_scale: float) -> None:
    """Below 1e-154 the squares vanish: primal and dual would be equal, both zero."""
    with pytest.raises(ValueError, match=r"^X, Y, sample_weight: .*float64"):
        pn.formulate("mlp", X, Y * y_scale)


@pytest.mark.parametrize("y_scale", [1e-150, 1e150])
def test_huber_far_from_its_delta_is_honest(fit: Fit, X: np.ndarray, Y: np.ndarray, y_scale: float) -> None:
    solution = fit(X, Y * y_scale, loss="huber", solve={"max_steps": 50})  # the fixture checks the certificate
    assert solution.certificate.gap >= 0


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_tiny_gradient_is_not_taken_for_zero(fit: Fit, X: np.ndarray, Y: np.ndarray, outputs: int) -> None:
    """With δ = 1e-170 every gradient's square underflows; the zero network is nowhere near optimal."""
    settings = {"loss": "huber", "loss_settings": {"delta": 1e-170}}
    solution = fit(X, Y[:, :outputs], beta=1e-175, solve={"max_steps": 3}, **settings)
    assert not solution.certificate.holds(0.5)


def test_mixed_scales(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    for samples, targets in (
        (X * [1e-200, 1.0, 1.0], Y),
        (X * [1e-200, 1e100, 1.0], Y),
        (np.vstack([1e150 * X[:1], X[1:]]), Y),
        (X, np.vstack([1e100 * Y[:1], Y[1:]])),
        (X, Y * [1.0, 1e-100]),
    ):
        assert fit(samples, targets).status is pn.Status.SOLVED


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.bool_, np.float16, np.float32, object])
def test_number_types(fit: Fit, X: np.ndarray, Y: np.ndarray, dtype: type) -> None:
    samples, targets = np.abs(3 * X).astype(dtype), np.abs(2 * Y).astype(dtype)
    solution = fit(samples, targets)
    assert solution.status is pn.Status.SOLVED
    assert solution.network().first.dtype == torch.float64
    same = fit(samples.astype(np.float64), targets.astype(np.float64))
    assert solution.certificate.primal == same.certificate.primal


def test_layouts_and_torch(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    expected = fit(X, Y).certificate.primal
    wide = np.zeros((40, 6))
    wide[::2, ::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    for samples in (np.asfortranarray(X), wide[::2, ::2], X[::-1][::-1], read_only, torch.tensor(X), X.tolist()):
        assert fit(samples, Y).certificate.primal == expected


def test_data_are_left_alone(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    samples, targets, weight = X.copy(), Y.copy(), np.ones(20)
    fit(samples, targets, sample_weight=weight)
    assert np.array_equal(samples, X)
    assert np.array_equal(targets, Y)
    assert np.array_equal(weight, np.ones(20))


def test_targets_changed_afterwards_change_nothing(X: np.ndarray) -> None:
    targets = (X[:, :1] > 0).astype(float)
    problem = pn.formulate("mlp", X, targets, loss="logistic", beta=0.5, gates=5)
    before = pn.solve(problem, "admm").certificate.primal
    targets[:] = 0
    assert pn.solve(problem, "admm").certificate.primal == before


def test_weights(fit: Fit, X: np.ndarray, Y: np.ndarray) -> None:
    for weight in (np.zeros(20), -np.ones(20), np.ones(19), np.ones((20, 1)), 10.0 ** np.linspace(-320, 0, 20), "a"):
        with pytest.raises(ValueError, match=r"^sample_weight: "):
            fit(X, Y, sample_weight=weight)
    only_one = fit(X, Y, beta=0.5, sample_weight=np.eye(20)[4])
    assert only_one.certificate.primal == pytest.approx(fit(X[4:5], Y[4:5], beta=0.5).certificate.primal, rel=2e-5)


@pytest.mark.parametrize("loss", ["squared", "softmax", "logistic", "huber"])
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_weights(fit: Fit, X: np.ndarray, loss: str, scale: float) -> None:
    targets = (X[:, 0] > 0).astype(int)
    solution = fit(X, targets, loss=loss, sample_weight=np.full(20, scale))
    assert solution.status is pn.Status.SOLVED
    assert solution.certificate.primal / scale == pytest.approx(fit(X, targets, loss=loss).certificate.primal, rel=2e-5)


def test_labels(X: np.ndarray) -> None:
    labels = np.arange(20) % 3
    for bad in (
        labels - 1,
        labels + 0.5,
        labels * 1e300,
        labels + 10**13,
        np.full((20, 3), 0.5),
        np.eye(3)[labels] - 1e-3,
    ):
        with pytest.raises(ValueError, match=r"^Y: "):
            pn.formulate("mlp", X, bad, loss="softmax")
    with pytest.raises(ValueError, match=r"^Y: logistic"):
        pn.formulate("mlp", X, labels, loss="logistic")


def test_soft_targets_in_float32(fit: Fit, X: np.ndarray) -> None:
    """Rows that sum to one only up to float32's rounding; before they were scaled their conjugate was infinite."""
    targets = torch.softmax(torch.tensor(X), dim=1).float()
    solution = pn.solve(pn.formulate("mlp", X, targets, loss="softmax", beta=0.5, gates=5), "admm", tol=1e-6)
    assert solution.status is pn.Status.SOLVED


TEXT = np.array([["1", "u"], ["2", "v"]] * 3, dtype=object)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (TEXT, r"X: column 1, row 0: 'u', is text; encode such columns"),
        (
            pd.DataFrame({"a": [1.0] * 6, "kind": pd.Categorical(["u", "v"] * 3)}),
            r"X: column 'kind', row 0: 'u', is text",
        ),
        ([[1.0, 2.0], [3.0]] * 3, r"X: its rows differ in length, from 1 to 2"),
        (np.array([[10**400, 1]] * 6, dtype=object), r"X: it holds a whole number that is too large"),
    ],
)
def test_what_is_no_number_is_named_where_it_is(X: Any, words: str) -> None:
    y = [0, 1] * 3
    with pytest.raises(ValueError, match=words):
        pn.ProvenClassifier().fit(X, y)


def test_text_in_new_rows_is_named() -> None:
    fitted = pn.ProvenClassifier(beta=1.0, gates=2).fit(np.arange(12.0).reshape(6, 2), [0, 1] * 3)
    with pytest.raises(ValueError, match="X: column 1, row 0: 'u', is text"):
        fitted.predict(TEXT)


def test_other_things_than_asked_for_are_named() -> None:
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    with pytest.raises(ValueError, match=r"X: sparse arrays are not supported; give X.toarray\(\)"):
        pn.formulate("mlp", scipy.sparse.csr_matrix(X), X)
    with pytest.raises(ValueError, match=r"n_gates: it must be a whole number, got 1.5"):
        pn.ProvenClassifier(n_gates=1.5).fit(X, y)
    with pytest.raises(ValueError, match=r"problem: expected one that provenet.formulate made, got ndarray"):
        pn.solve(X)
    with pytest.raises(ValueError, match="got ProvenClassifier; an estimator has its certificate in certificate_"):
        pn.certify(pn.ProvenClassifier(), X, y)
