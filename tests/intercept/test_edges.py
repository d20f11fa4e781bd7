"""Where the domain of a conjugate ends: points a hair outside, targets a hair from labels, numbers far from one."""

from __future__ import annotations

import time
from fractions import Fraction
from math import log

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import network_certificate
from provenet.losses import Free, Softmax
from provenet.losses.balance import is_balanced
from provenet.losses.quick import Labels
from provenet.losses.softmax_shift import softmax_shift
from provenet.proofs.independent import second_opinion
from provenet.vectors import times_power_of_two


def test_points_outside_by_less_than_rounding_prove_nothing_false() -> None:
    """Exactly balanced, with signs that no gradient has, and so small that a lenient conjugate would not see it."""
    X, Y = np.array([[1.0], [2.0], [-1.0], [-2.0]]), np.eye(2)[[0, 0, 1, 1]]
    problem = pn.formulate("mlp", X, Y, activation="linear", loss="softmax", beta=1e-15, fit_intercept="free")
    solution = pn.solve(problem, tol=1e-6)
    network, primal = solution.network(), solution.certificate.primal
    assert solution.certificate.relative_gap <= 1e-6
    rng = np.random.default_rng(1)
    for power in range(-52, -44):
        theta = np.round(rng.standard_normal((4, 2)) * 2**20)
        theta[1], theta[3] = -theta[0], -theta[2]
        tampered = torch.from_numpy(theta * 2.0 ** (power - 20))
        assert is_balanced(tampered)
        assert network_certificate(problem, network, 1e-16, tampered).dual <= primal * (1 + 1e-12)
        assert second_opinion(problem, network, theta=tampered).dual <= primal * (1 + 1e-12)


@pytest.mark.parametrize("share", [1e-6, 1e-9, 1e-12, 1e-14])
@pytest.mark.parametrize("free", [False, True])
def test_targets_next_to_labels_keep_their_digits(share: float, free: bool) -> None:
    """At least the entropy of the targets is left of any fit; the loss at that, and the bound, to the last digits."""
    rest = share * np.array([0.7, 1.0, 1.3])
    rest = 1 - (1 - rest)  # what float64 has of it
    Y = np.stack([1 - rest, rest], axis=1)
    exact = [Fraction(float(r)) for r in rest]
    least = sum(float(r) * (1 - log(float(r)) - float(r) / 2) for r in exact)  # (1 − r) log(1 − r) ≈ −r + r²/2
    target = torch.from_numpy(Y)
    plain = Softmax(target)
    loss = Free(plain) if free else plain
    at_best = torch.stack([torch.zeros(3, dtype=torch.float64), torch.from_numpy(np.log(rest) - np.log1p(-rest))], 1)
    assert float(plain.value(at_best)) == pytest.approx(least, rel=1e-12 + share**2)
    assert float(-plain.conjugate(torch.zeros_like(target))) == pytest.approx(least, rel=1e-12 + share**2)
    problem = pn.formulate(
        "mlp", np.eye(3), Y, activation="linear", loss="softmax", beta=10.0, fit_intercept="free" if free else None
    )
    certificate = pn.solve(problem, tol=1e-3).certificate
    assert certificate.gap >= -1e-14 * certificate.primal
    assert float(loss.value(torch.zeros_like(target))) >= certificate.dual * (1 - 1e-14)


@pytest.mark.parametrize("rare", [0.0, 1e-30, 1e-17, 1e-9])
def test_mixtures_with_rare_classes_are_balanced_within_the_domain(rare: float) -> None:
    rng = np.random.default_rng(0)
    Y = rng.dirichlet([1.0, 1.0, 1.0], 50)
    Y = np.concatenate([Y * (1 - rare), np.full((50, 1), rare)], axis=1)
    loss = Free(Softmax(torch.from_numpy(Y), torch.from_numpy(10.0 ** rng.uniform(-3, 3, 50))))
    prediction = torch.from_numpy(30 * rng.standard_normal((50, 4)))
    theta = loss.dual_at(prediction)
    assert is_balanced(theta)
    assert bool(torch.isfinite(loss.conjugate(theta)))
    assert torch.equal(loss.admissible(theta), theta)


def test_mixtures_of_very_different_weights_take_no_time() -> None:
    rng = np.random.default_rng(6)
    Y = 0.999 * np.eye(12)[rng.integers(0, 11, 8)] + 0.001 * rng.dirichlet(np.full(12, 0.3), 8)
    loss = Free(Softmax(torch.from_numpy(Y), torch.from_numpy(10.0 ** rng.uniform(-10, 10, 8))))
    began = time.process_time()
    loss.value(torch.from_numpy(rng.standard_normal((8, 12))))
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("size", [-300, -40, 0, 200])
def test_powers_of_two_do_not_rest_on_float32(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `torch.ldexp` once did, whose infinities then summed to zero."""
    monkeypatch.setattr(torch, "ldexp", lambda x, k: x * torch.pow(2.0, k))
    column = torch.tensor([[3.0], [1.0]], dtype=torch.float64) * 10.0**size
    assert not is_balanced(column)
    assert is_balanced(column - column.flip(0))
    assert float(times_power_of_two(torch.tensor(3.0, dtype=torch.float64), -1000)) == 3.0 * 2.0**-1000


def test_outputs_whose_differences_overflow_have_some_finite_intercept() -> None:
    prediction = torch.tensor([[1.5e308, 0.0], [-1.5e308, 0.0], [0.0, 1.0]], dtype=torch.float64)
    target = torch.eye(2, dtype=torch.float64)[[0, 1, 0]]
    labels = Labels.of(target, torch.ones(3, 1, dtype=torch.float64))
    found = softmax_shift(prediction, labels, torch.zeros(2, dtype=torch.float64))
    assert bool(torch.isfinite(found).all())
