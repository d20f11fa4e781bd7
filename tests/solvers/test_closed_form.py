"""The closed form of whitened data, the rows that allow it, and the bounds that make it a proof."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.fft
import torch

import provenet as pn
from provenet.gates.arrangements import arrangements
from provenet.gates.spike_free import spike_free_stretch
from provenet.gauges import ConeNuclear, SpikeFree
from provenet.problem import Problem
from provenet.solvers.cones.closed_form import _factors, nonnegative_basis


def orthonormal_rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, n)))[0].T


def formulated(X: np.ndarray, Y: np.ndarray, beta: float, **settings: object) -> Problem:
    return pn.formulate("mlp", X, Y, activation="relu", gates="all", beta=beta, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("classes", [1, 3, 6])
@pytest.mark.parametrize("rotated", [False, True])
def test_balanced_classes_in_any_basis(classes: int, rotated: bool) -> None:
    """All singular values coincide: an SVD returns any basis, and the indicators must be found in it."""
    rng = np.random.default_rng(classes)
    Y = np.eye(classes)[np.arange(30) % classes]
    if rotated:
        Y = Y @ np.linalg.qr(rng.standard_normal((classes, classes)))[0]
    problem = formulated(orthonormal_rows(30, 40), Y, 0.5)
    solution = pn.solve(problem, "closed_form", tol=1e-9)
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.certificate.scope == "all_arrangements"
    assert solution.factors.n_neurons == classes
    n_class = 30 / classes
    value = classes * (0.5 * 0.5**2 + 0.5 * (n_class**0.5 - 0.5))  # ½β² + β(σ − β) of each class
    assert solution.certificate.primal == pytest.approx(value, rel=1e-9)


def test_unbalanced_classes_scale_and_weight() -> None:
    rng = np.random.default_rng(1)
    y = np.minimum(rng.integers(4, size=25), rng.integers(4, size=25))
    X = 3.0 * orthonormal_rows(25, 25)
    problem = formulated(X, np.eye(4)[y], 1.0, sample_weight=np.full(25, 2.5))
    assert pn.solve(problem, "closed_form", tol=1e-9).certificate.relative_gap <= 1e-9
    assert pn.solve(problem, tol=1e-9).method == "closed_form"


def test_small_singular_values_below_beta_need_no_sign() -> None:
    rng = np.random.default_rng(0)
    Y = np.ones((12, 1)) @ np.array([[2.0, 1.0]]) + 0.05 * rng.standard_normal((12, 2))
    problem = formulated(orthonormal_rows(12, 15), Y, 1.0)
    solution = pn.solve(problem, "closed_form", tol=1e-9)
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.factors.n_neurons == 1
    with pytest.raises(ValueError, match="singular value 2 have no non-negative basis"):
        pn.solve(problem.with_beta(0.01), "closed_form")


def test_what_the_theorem_leaves_others_finish() -> None:
    """Where CP Thm 2 asks for more than the singular vectors have, "auto" goes on; where not, X is not decomposed."""
    rng = np.random.default_rng(0)
    Y = np.ones((12, 1)) @ np.array([[2.0, 1.0]]) + 0.05 * rng.standard_normal((12, 2))
    problem = formulated(orthonormal_rows(12, 15), Y, 1.0)
    assert pn.solve(problem, tol=1e-9).method == "closed_form"
    assert "_reduced" not in problem.program.operator.__dict__
    beyond = pn.solve(problem.with_beta(0.01), tol=1e-3)
    assert "closed_form" not in beyond.method
    assert beyond.certificate.holds(1e-3)
    assert beyond.certificate.primal < 0.99 * float(problem.loss.value(torch.zeros(12, 2)))


def test_above_beta_max_the_network_is_empty() -> None:
    problem = formulated(orthonormal_rows(8, 9), np.eye(2)[np.arange(8) % 2], 10.0)
    assert pn.solve(problem, "closed_form").factors.n_neurons == 0


def test_refusals_name_the_reason() -> None:
    rng = np.random.default_rng(0)
    X, Y = orthonormal_rows(6, 8), np.eye(2)[np.arange(6) % 2]
    with pytest.raises(ValueError, match="whitened X"):
        pn.solve(formulated(rng.standard_normal((6, 3)), Y, 0.1), "closed_form")
    with pytest.raises(ValueError, match="gates='all'"):
        pn.solve(pn.formulate("mlp", X, Y, activation="relu", gates=5, beta=0.1), "closed_form")
    with pytest.raises(ValueError, match="squared loss"):
        pn.solve(formulated(X, Y, 0.1, loss="softmax"), "closed_form")
    with pytest.raises(ValueError, match="sample_weight must be the same"):
        pn.solve(formulated(X, Y, 0.1, sample_weight=np.arange(1.0, 7)), "closed_form")
    with pytest.raises(ValueError, match="length of X's rows"):
        pn.solve(formulated(X * np.arange(1.0, 7)[:, None], Y, 0.1), "closed_form")


@pytest.mark.parametrize("m", [1, 2, 5])
def test_nonnegative_bases(m: int) -> None:
    rng = np.random.default_rng(m)
    N = np.zeros((20, m))
    N[np.arange(20), np.concatenate([np.arange(m), rng.integers(m, size=20 - m)])] = rng.uniform(0.1, 1, 20)
    N[-1] = 0
    N /= np.linalg.norm(N, axis=0)
    turn = np.linalg.qr(rng.standard_normal((m, m)))[0]
    found = nonnegative_basis(torch.from_numpy(N @ turn))
    assert found is not None
    order = np.argsort(found.numpy().argmax(0))
    np.testing.assert_allclose(found.numpy()[:, order], N[:, np.argsort(N.argmax(0))], atol=1e-12)
    mixed = np.linalg.qr(rng.standard_normal((20, m)))[0]
    assert nonnegative_basis(torch.from_numpy(mixed)) is None


def test_orthogonal_rows_are_found_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    X = torch.from_numpy(orthonormal_rows(40, 50))
    stretch = spike_free_stretch(X * torch.arange(1, 41)[:, None])  # of any lengths
    assert stretch is not None and 1 < stretch < 1 + 1e-11  # noqa: PT018
    assert spike_free_stretch(torch.from_numpy(rng.standard_normal((40, 50)))) is None
    assert spike_free_stretch(torch.cat([X, X[:1]])) is None
    assert spike_free_stretch(torch.from_numpy(rng.standard_normal((6, 4)))) is None
    assert spike_free_stretch(torch.cat([X[:3], torch.zeros(1, 50)])) is None


@pytest.mark.parametrize("noise", [0.0, 1e-5])
@pytest.mark.parametrize("outputs", [1, 2])
def test_one_gate_bounds_all_arrangements(noise: float, outputs: int) -> None:
    """The polar behind the open gate, stretched, is no less than that of any arrangement, nearly orthogonal or not."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = torch.from_numpy(orthonormal_rows(4, 5, seed) + noise * rng.standard_normal((4, 5)))
        problem = formulated(X.numpy(), rng.standard_normal((4, outputs)), 0.1)
        gauge = problem.program.gauge
        assert isinstance(gauge, SpikeFree)
        theta = torch.from_numpy(rng.standard_normal((4, outputs)))
        upper = float(gauge.polar(problem.program.operator.adjoint(theta)).upper.max())
        vectors, _ = arrangements(X)
        every = pn.formulate("mlp", X, problem.loss.target, activation="relu", gates=vectors, beta=0.1)
        assert not isinstance(every.program.gauge, SpikeFree)
        ratio = problem.program.operator.X[0, 0] / every.program.operator.X[0, 0]
        lower = float(every.program.polar(theta * ratio).lower.max())
        assert lower <= upper
        assert upper <= lower * (1 + 1e-4) + 1e-9 or outputs > 1


def test_frank_wolfe_and_the_closed_form_agree() -> None:
    X, Y = orthonormal_rows(9, 12), np.eye(3)[np.arange(9) % 3]
    problem = formulated(X, Y, 0.3)
    closed = pn.solve(problem, "closed_form", tol=1e-9).certificate
    other = pn.solve(problem, "frank_wolfe", tol=1e-6).certificate
    assert isinstance(problem.program.gauge, ConeNuclear)
    assert closed.primal == pytest.approx(other.primal, rel=1e-5)
    assert other.dual <= closed.primal


def test_three_thousand_whitened_samples() -> None:
    """CP §5.2's size: the thresholded SVD takes well under a second of one core."""
    n, d = 3000, 3072
    rng = np.random.default_rng(0)
    X = scipy.fft.dct(np.eye(d)[:n] * np.sign(rng.standard_normal(d)), norm="ortho", axis=1)
    problem = formulated(X, np.eye(100)[np.arange(n) % 100], 5.0)
    began = time.process_time()
    _factors(problem.program)
    assert time.process_time() - began < 1
    solution = pn.solve(problem, "closed_form", tol=1e-7)
    assert solution.certificate.relative_gap <= 1e-7
    assert solution.factors.n_neurons == 100
