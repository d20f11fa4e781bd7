"""`certify` with a bias of the last layer that is free, or pays as weights do; and the scope that is asked for."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import nn

import provenet as pn
from provenet.losses import Huber, Logistic, Paid, Softmax, Squared
from provenet.testing import check_loss

BETA = 0.3
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal((12, 1)) + 1
PAID = {"loss": "squared", "beta": BETA, "bias": "penalised"}


def network(hidden_bias: bool, relu: bool = True, seed: int = 0, c: int = 1) -> nn.Sequential:
    """Trained with weight decay on all parameters, as torch's optimisers do it."""
    torch.manual_seed(seed)
    layers = [nn.Linear(2, 20, bias=hidden_bias), *([nn.ReLU()] if relu else []), nn.Linear(20, c)]
    net = nn.Sequential(*layers).double()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=400, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        value = objective(net)
        value.backward()
        return value

    optimiser.step(closure)
    return net


def objective(net: nn.Module) -> Any:
    squares = sum(weight.square().sum() for weight in net.parameters())
    return 0.5 * (net(torch.tensor(X)) - torch.tensor(Y)).square().sum() + BETA / 2 * squares


def reference(hidden_bias: bool) -> float:
    """All arrangements of one output, by CVXPY: two weights in the cone of each, for either sign of v."""
    rows = np.c_[X, np.ones(len(X))] if hidden_bias else X
    problem = pn.formulate(pn.MLP(fit_intercept=hidden_bias), X, Y, "relu", gates="all", beta=BETA)
    b, outputs, norms, walls = cp.Variable(), 0, 0, []
    for pattern in problem.patterns.numpy():
        gated, signs = rows * pattern[:, None], np.where(pattern, 1.0, -1.0)[:, None]
        for sign in (1, -1):
            u = cp.Variable(rows.shape[1])
            outputs, norms = outputs + sign * (gated @ u), norms + cp.norm(u)
            walls.append((signs * rows) @ u >= 0)
    loss = 0.5 * cp.sum_squares(outputs + b - Y[:, 0]) + BETA * norms + BETA / 2 * cp.square(b)
    return float(cp.Problem(cp.Minimize(loss), walls).solve(solver="CLARABEL"))


@pytest.mark.parametrize("hidden_bias", [False, True])
def test_a_penalised_bias_is_judged_against_those_that_pay(hidden_bias: bool) -> None:
    net = network(hidden_bias)
    found = pn.certify(net, X, Y, **PAID, tol=1e-3, sharpen=5.0)  # type: ignore[call-overload]
    best = reference(hidden_bias)
    assert found.primal == pytest.approx(float(objective(net).detach()), rel=1e-12)
    assert found.dual <= best * (1 + 1e-7)
    assert found.dual == pytest.approx(best, rel=2e-3)
    free = pn.certify(net, X, Y, loss="squared", beta=BETA)
    paid = BETA / 2 * float(net[-1].bias.detach().square().sum())  # type: ignore[union-attr]
    assert found.primal == pytest.approx(free.primal + paid, rel=1e-12)
    better = found.improve()
    if better is not None:
        assert best * (1 - 1e-7) <= float(objective(better).detach()) < found.primal


def test_what_is_taken_for_the_penalty_is_said() -> None:
    net = network(True)
    free, paid = (pn.certify(net, X, Y, loss="squared", beta=BETA, bias=bias) for bias in ("free", "penalised"))
    assert free.biases == "hidden units: penalised, as weights are; outputs: free: any, without penalty"
    assert paid.biases == "hidden units: penalised, as weights are; outputs: penalised, as weights are"
    assert free.free_intercept
    assert not paid.free_intercept
    assert f"biases            {paid.biases}" in str(paid)
    assert paid.to_dict()["biases"] == paid.biases
    net[-1].bias = None
    none = pn.certify(net, X, Y, **PAID)  # type: ignore[call-overload]
    assert none.biases.endswith("outputs: none")
    with pytest.raises(ValueError, match="bias: 'heavy' is unknown; of the last layer it is 'free' or 'penalised'"):
        pn.certify(net, X, Y, loss="squared", beta=BETA, bias="heavy")


def test_a_penalised_bias_of_zero_is_one() -> None:
    """The best network may have another: with no bias, or a free one, the optimum is another problem's."""
    net = network(False)
    net[-1].bias.data.zero_()  # type: ignore[union-attr]
    found = pn.certify(net, X, Y, **PAID)  # type: ignore[call-overload]
    assert found.dual <= reference(False) * (1 + 1e-7)
    assert found.improve() is not None


def test_two_linear_layers() -> None:
    net = network(True, relu=False)
    found = pn.certify(net, X, Y, **PAID)  # type: ignore[call-overload]
    rows, u, b = np.c_[X, np.ones(len(X))], cp.Variable((3, 1)), cp.Variable((1, 1))
    loss = 0.5 * cp.sum_squares(rows @ u + np.ones((12, 1)) @ b - Y) + BETA * cp.norm(u) + BETA / 2 * cp.sum_squares(b)
    best = float(cp.Problem(cp.Minimize(loss)).solve(solver="CLARABEL"))
    assert found.scope == "linear"
    assert found.dual <= best * (1 + 1e-7)
    assert found.primal == pytest.approx(best, rel=1e-4)
    assert found.relative_gap < 1e-4


def test_means_are_sums_of_a_larger_beta() -> None:
    net = network(True)
    mean = pn.certify(net, X, Y, **PAID | {"beta": BETA / 12, "mean": True})  # type: ignore[call-overload]
    summed = pn.certify(net, X, Y, **PAID)  # type: ignore[call-overload]
    assert (mean.primal, mean.dual) == pytest.approx((summed.primal, summed.dual), rel=1e-12)


REAL = torch.tensor(RNG.standard_normal((5, 3)))
ONE_HOT = torch.nn.functional.one_hot(torch.tensor([0, 2, 1, 1, 0])).double()
WEIGHT = torch.tensor([1.0, 3.0, 0.5, 2.0, 10.0], dtype=torch.float64)


@pytest.mark.parametrize("plain", [Squared(100 * REAL), Huber(REAL, WEIGHT), Softmax(ONE_HOT), Logistic(ONE_HOT)])
def test_the_loss_keeps_its_contract(plain: Any) -> None:
    loss = Paid(plain, None, 3.0)
    check_loss(loss)
    prediction = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    light = loss.divided(4.0)
    assert float(light.value(prediction)) == pytest.approx(float(loss.value(prediction)) / 4, rel=1e-12)
    b = loss.intercept(prediction)
    assert float(loss.value_at(prediction, b)) == pytest.approx(float(loss.value(prediction)), rel=1e-12)


def test_the_scope_is_that_asked_for() -> None:
    draw = np.random.default_rng(0)
    tokens, targets = draw.standard_normal((6, 3, 2)), draw.standard_normal((6, 2))
    problem = pn.formulate("attention", tokens, targets, "relu", gates=4, beta=BETA)
    net = pn.solve(problem, tol=1e-2).network()
    asked = {"loss": "squared", "beta": BETA}
    whole = pn.certify(net, tokens, targets, **asked)  # type: ignore[call-overload]
    own = pn.certify(net, tokens, targets, **asked, scope="fixed_gates")  # type: ignore[call-overload]
    assert (whole.scope, own.scope) == ("all_arrangements", "fixed_gates")
    assert whole.primal == own.primal
    assert own.relative_gap < 0.1 < whole.relative_gap
    masked = (tokens, targets, np.ones((6, 3), dtype=bool))
    with pytest.raises(ValueError, match=r"scope: with a mask.*'fixed_gates' judges"):
        pn.certify(net, masked, **asked, scope="all_arrangements")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="scope: a network of activation 'linear' is judged among 'linear'"):
        pn.certify(network(True, relu=False), X, Y, **asked, scope="fixed_gates")  # type: ignore[call-overload]


def test_sums_that_rounding_makes_zero_prove_nothing_where_b_costs_next_to_nothing() -> None:
    """0.1 + 0.2 − 0.3 and its like: the sum of these doubles is not what a sum of them gives."""
    theta = torch.tensor([[0.1], [0.2], [-0.3], [1e-17]], dtype=torch.float64)
    exact = sum(Fraction(float(value)) for value in theta.flatten())
    for order in permutations(range(4)):
        loss = Paid(Squared(torch.zeros(4, 1, dtype=torch.float64)), cost=1e-30)
        told = loss.conjugate(theta[list(order)]) - loss.plain.conjugate(theta[list(order)])
        assert Fraction(float(told)) >= exact**2 / Fraction(2e-30) * (1 - Fraction(1, 10**9))
