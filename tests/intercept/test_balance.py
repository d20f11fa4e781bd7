"""Dual points whose columns sum to zero, exactly: in rational arithmetic, not in floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from provenet import deadline
from provenet.losses import Free, Huber, Logistic, Loss, Softmax, Squared, softmax_shift
from provenet.losses.balance import is_balanced
from provenet.losses.flows import _path, circulation
from provenet.testing import check_loss
from provenet.verify import intercept as second

RANDOM = torch.Generator().manual_seed(0)
REAL = torch.randn(40, 3, generator=RANDOM, dtype=torch.float64)
LABELS = torch.randint(0, 3, (40,), generator=RANDOM)
ONE_HOT = torch.nn.functional.one_hot(LABELS, 3).double()
WEIGHT = 10.0 ** (6 * torch.rand(40, generator=RANDOM, dtype=torch.float64) - 3)
THERE = torch.rand(8, 5, generator=RANDOM) > 0.4
TOKENS = REAL.view(8, 5, 3) * THERE[..., None]

LOSSES: dict[str, Loss] = {
    "squared": Squared(REAL),
    "squared, weighted": Squared(REAL, WEIGHT),
    "squared, far": Squared(1e8 + 1e-3 * REAL),
    "huber": Huber(REAL, WEIGHT, 0.3),
    "logistic": Logistic((REAL > 0).double(), WEIGHT),
    "softmax": Softmax(ONE_HOT, WEIGHT),
    "softmax, a class missing": Softmax(torch.nn.functional.one_hot(LABELS, 4).double()),
    "softmax, one class": Softmax(torch.nn.functional.one_hot(0 * LABELS, 3).double()),
    "softmax, mixtures": Softmax(torch.softmax(REAL, 1), WEIGHT),
    "logistic, one class": Logistic(torch.ones(40, 1, dtype=torch.float64)),
}


def column_sums(theta: Tensor | np.ndarray) -> list[Fraction]:
    rows = np.asarray(theta).reshape(-1, theta.shape[-1])
    return [sum((Fraction(float(value)) for value in column), Fraction(0)) for column in rows.T]


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("name", LOSSES)
def test_columns_sum_to_zero_exactly_and_stay_in_the_domain(name: str, size: float) -> None:
    plain = LOSSES[name]
    loss = Free(plain)
    prediction = size * torch.randn(plain.target.shape, generator=RANDOM, dtype=torch.float64)
    gradient = loss.gradient(prediction)
    theta = loss.dual_at(prediction)
    assert column_sums(theta) == [0] * theta.shape[-1]
    assert is_balanced(theta)
    if size < 100:  # of steps as steep as those the best b need not be found
        assert float((theta - gradient).abs().max()) <= 1e-10 * float(plain.sample_weight.max()) * (1 + size)
    for tau in (1.0, 0.3, 1e-9):
        assert torch.isfinite(plain.conjugate(tau * theta)), "it left the domain"
    other = loss.admissible(torch.randn(theta.shape, generator=RANDOM, dtype=torch.float64))
    assert column_sums(other) == [0] * theta.shape[-1]


@pytest.mark.parametrize("name", LOSSES)
def test_the_second_opinion_balances_as_exactly(name: str) -> None:
    loss = LOSSES[name]
    y, w = loss.target.numpy(), loss.weight.numpy()
    delta = float(loss.kink or 1.0)
    b = loss.shift(0 * loss.target, torch.zeros(y.shape[1], dtype=torch.float64))
    for theta in (loss.gradient(0 * loss.target + b).numpy(), loss.gradient(loss.target * 0.5 + 1).numpy()):
        found = second.balanced(theta, y, w, loss.name, delta)
        assert column_sums(found) == [0] * y.shape[1]
        assert second.sums_to_zero(found)
    if name == "squared, far":  # no b of float64 balances these
        return
    close = second.balanced(loss.gradient(0 * loss.target + b).numpy(), y, w, loss.name, delta)
    assert np.abs(close - loss.gradient(0 * loss.target + b).numpy()).max() <= 1e-9 * w.max()


def test_what_is_not_exactly_zero_proves_nothing() -> None:
    """A Θ off by one ulp in one entry: b may be as large as it likes, so no multiple of it is a dual point."""
    loss = Free(Squared(REAL))
    theta = loss.dual_at(0 * REAL)
    off = theta.clone()
    off[0, 0] = torch.nextafter(off[0, 0], torch.tensor(torch.inf, dtype=torch.float64))
    assert loss.dual_scale(theta, 1.0) > 0
    assert loss.dual_scale(off, 1.0) == 0
    assert column_sums(loss.admissible(off)) == [0, 0, 0]
    assert not second.sums_to_zero(off.numpy())


def test_tokens_that_are_not_there_have_no_intercept() -> None:
    loss = Free(Squared(TOKENS), THERE)
    prediction = torch.randn(8, 5, 3, generator=RANDOM, dtype=torch.float64) * THERE[..., None]
    theta = loss.dual_at(prediction)
    assert column_sums(theta) == [0, 0, 0]
    assert not bool(theta[~THERE].any())
    moved = theta.clone()
    moved[~THERE] += 1.0  # a sum of zero over all tokens is not enough
    moved[THERE] -= float((~THERE).sum() / THERE.sum())
    assert loss.dual_scale(moved, 1.0) == 0
    b = loss.intercept(prediction)
    residual = (TOKENS - prediction)[THERE]
    torch.testing.assert_close(b, residual.mean(0))


@pytest.mark.parametrize("name", ["squared, weighted", "huber", "logistic", "softmax", "softmax, mixtures"])
def test_contract(name: str) -> None:
    loss = LOSSES[name]
    small = loss.with_data(loss.target[:5], 1 + WEIGHT[:5] / WEIGHT.max())
    check_loss(Free(small))


def test_contract_of_tokens() -> None:
    check_loss(Free(Squared(TOKENS[:3]), THERE[:3] | True))


@pytest.mark.parametrize("name", LOSSES)
def test_the_best_constant_is_the_best(name: str) -> None:
    loss = Free(LOSSES[name])
    for size in (0.1, 3.0, 30.0):
        prediction = size * torch.randn(loss.target.shape, generator=RANDOM, dtype=torch.float64)
        b = loss.intercept(prediction)
        least = float(loss.value(prediction))
        assert float(loss.value_at(prediction, b)) == pytest.approx(least, rel=1e-6)
        for step in (1e-3, 1.0, -1e-3, -1.0):
            for k in range(len(b)):
                other = b.clone()
                other[k] += step
                assert float(loss.value_at(prediction, other)) >= least * (1 - 1e-9)


def test_classes_far_apart_are_balanced_in_logarithms() -> None:
    """Losses of e^−100, of which no digit is lost to 1 − p."""
    margin = 100.0 * ONE_HOT + REAL + 7 * torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64)
    for loss in (Softmax(ONE_HOT), Logistic(ONE_HOT)):
        at = margin if loss.name == "softmax" else margin - 50
        gradient = Free(loss).gradient(at)
        assert 0 < float(gradient.abs().max()) < 1e-15
        assert float(gradient.sum(0).abs().max()) <= 1e-9 * float(gradient.abs().max())


def test_the_best_constant_is_looked_for_no_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where softmax is all steps the search is long; whatever it ends at is a constant that a network may have."""
    draw = torch.Generator().manual_seed(0)
    y = torch.eye(10, dtype=torch.float64)[torch.randint(0, 10, (400,), generator=draw)]
    z = 1e5 * torch.randn(400, 10, generator=draw, dtype=torch.float64)
    looks, real = [], softmax_shift._At.of
    monkeypatch.setattr(softmax_shift._At, "of", staticmethod(lambda *at: (looks.append(1), real(*at))[1]))
    best = Free(Softmax(y)).value(z)
    long, short = len(looks), Free(Softmax(y))
    looks.clear()
    with deadline.within(0.0):
        value, theta, shift = short.value(z), short.dual_at(z), short.intercept(z)
    assert len(looks) < 0.6 * long
    assert float(best) <= float(value) == pytest.approx(float(short.value_at(z, shift)), rel=1e-12)
    assert is_balanced(theta)
    assert float(-short.conjugate(theta * short.dual_scale(theta, 1.0))) <= float(best) * (1 + 1e-12)


def test_a_path_ends_at_the_first_class_that_gets_too_much():
    """Classes beside it are not gone through: of a hundred classes that was most of the time of a look."""

    class Closed(list):
        def __iter__(self):
            raise AssertionError("it need not be looked at")

    assert _path([[0, 1, 1], Closed(), Closed()], excess=[1, 0, -1], start=0) == [0, 2]
    through = [[0, 2, 0], [0, 0, 2], Closed()]
    assert _path(through, excess=[2, 0, -2], start=0) == [0, 1, 2]
    assert circulation([[0, 2, 1], [0, 0, 3], [2, 0, 0]]) == [[0, 2, 0], [0, 0, 2], [2, 0, 0]]
