from __future__ import annotations

import math

import pytest
import torch

from provenet.losses import LOSSES, Huber, Logistic, Loss, Softmax, Squared
from provenet.testing import check_loss

N = 5
RANDOM = torch.Generator().manual_seed(0)
REAL = torch.randn(N, 3, generator=RANDOM, dtype=torch.float64)
BINARY = (REAL > 0).double()
ONE_HOT = torch.nn.functional.one_hot(torch.tensor([0, 2, 1, 1, 0])).double()
SIMPLEX = torch.softmax(REAL, dim=1)
WEIGHT = torch.tensor([1.0, 3.0, 0.5, 2.0, 10.0], dtype=torch.float64)

CASES: dict[str, Loss] = {
    "squared": Squared(REAL),
    "squared, weighted": Squared(REAL, WEIGHT),
    "squared, large": Squared(1e5 * REAL),
    "squared, tokens": Squared(REAL[:, None, :].repeat(1, 2, 1), WEIGHT),
    "softmax": Softmax(ONE_HOT),
    "softmax, weighted": Softmax(ONE_HOT, WEIGHT),
    "softmax, soft targets": Softmax(SIMPLEX),
    "softmax, tokens": Softmax(ONE_HOT[:, None, :].repeat(1, 2, 1), WEIGHT),
    "logistic": Logistic(BINARY),
    "logistic, weighted": Logistic(BINARY[:, :1], WEIGHT),
    "huber": Huber(REAL),
    "huber, narrow": Huber(10 * REAL, WEIGHT, delta=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_loss(name: str) -> None:
    check_loss(CASES[name])


def test_every_loss_is_checked() -> None:
    assert {type(loss) for loss in CASES.values()} == set(LOSSES.values())


@pytest.mark.parametrize("margin", [1.0, 20.0, 40.0, 200.0])
@pytest.mark.parametrize(
    ("loss", "right", "terms", "rivals"),
    [(Softmax(ONE_HOT), ONE_HOT, N, 2), (Logistic(ONE_HOT), 2 * ONE_HOT - 1, 3 * N, 1)],
    ids=["softmax", "logistic"],
)
def test_a_tiny_loss_keeps_its_digits(loss: Loss, right: torch.Tensor, terms: int, rivals: int, margin: float) -> None:
    """All samples right by a margin: value, gradient and conjugate are relatively accurate, far below eps too."""
    prediction = margin * right
    value, theta = float(loss.value(prediction)), loss.gradient(prediction)
    assert value == pytest.approx(terms * math.log1p(rivals * math.exp(-margin)), rel=1e-13)
    conjugate, product = float(loss.conjugate(theta)), float((theta * prediction).sum())
    assert value + conjugate - product == pytest.approx(0, abs=1e-14 * margin * value)


def test_softmax_conjugate_outside_the_simplex() -> None:
    loss = Softmax(ONE_HOT)
    theta = loss.gradient(torch.zeros_like(ONE_HOT))
    assert loss.conjugate(theta) < float("inf")
    assert loss.conjugate(theta + 1e-6) == float("inf")  # rows no longer sum to zero
    assert loss.conjugate(1.6 * theta) == float("inf")  # a probability below zero


def test_a_wrong_conjugate_is_found() -> None:
    class Wrong(Squared):
        def conjugate(self, dual: torch.Tensor) -> torch.Tensor:
            return super().conjugate(dual) - 0.01

    with pytest.raises(AssertionError, match="Fenchel"):
        check_loss(Wrong(REAL))


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_probabilities_are_those_of_torch_for_short_and_long_rows(classes: int) -> None:
    prediction = 50 * torch.randn(20, classes, generator=RANDOM, dtype=torch.float64)
    label = torch.nn.functional.one_hot(torch.arange(20) % classes, classes).double()
    found = Softmax(label).gradient(prediction)
    torch.testing.assert_close(found, torch.softmax(prediction, 1) - label, rtol=1e-13, atol=1e-15)
