"""Solves with the kernel in two precisions, and ADMM on sums of float32 differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import deadline
from provenet.solvers.stacks import kernel as kernels
from provenet.solvers.stacks.admm import ADMM
from provenet.solvers.stacks.kernel import Kernel, KernelSolve


def _problem(loss="squared", outputs=1, n=600):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6))
    hidden = np.maximum(X @ rng.standard_normal((6, 5)), 0) @ rng.standard_normal((5, max(outputs, 2)))
    Y = hidden.argmax(1) if loss == "softmax" else hidden[:, :outputs]
    problem = pn.formulate("mlp", X, Y, gates=20, loss=loss)
    return problem.with_beta(0.05 * problem.beta_max)


@pytest.mark.parametrize("columns", [1, 3, 7])
def test_solves_have_the_digits_of_their_precision(columns):
    """Few columns and many are solved for in different ways."""
    operator = _problem().program.operator
    kernel, exact = Kernel(operator), operator.kernel()
    right = torch.randn(len(exact), columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for share, single, digits in ((1e-3, True, 1e-3), (1e-9, False, 1e-6), (1e-3, False, 1e-11)):
        ridge = torch.full((len(exact),), share * float(exact.trace()), dtype=torch.float64)
        found = kernel.solve(ridge, right)
        wanted = torch.linalg.solve(exact + torch.diag(ridge), right)
        assert kernel.single is single  # a small ridge asks for float64, once and for all
        assert found.dtype == torch.float64
        error = float((found - wanted).norm() / wanted.norm())
        assert error < digits
        assert not single or error > 1e-12  # it was float32


def test_few_rows_are_not_rounded():
    assert not KernelSolve.of(_problem(n=100).program.operator).single


@pytest.mark.parametrize(("loss", "outputs"), [("squared", 1), ("huber", 2), ("softmax", 2)])
def test_sums_of_rounded_differences_end_where_exact_steps_do(loss, outputs, monkeypatch):
    """Far below float32's digits, in about as many steps, and with sums that are what they should be."""
    problem = _problem(loss, outputs)
    rough = pn.solve(problem, ADMM(), tol=1e-9, max_steps=5000)
    monkeypatch.setattr(kernels, "_MANY", 10**9)
    exact = pn.solve(problem, ADMM(), tol=1e-9, max_steps=5000)
    assert rough.certificate.relative_gap <= 1e-9
    assert rough.steps <= 1.2 * exact.steps + 5
    assert rough.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-9)


def test_a_point_is_the_prediction_of_its_neurons():
    """Not the sum that steps go on with."""
    program = _problem("softmax", 3).program
    method = ADMM()
    state = method.init(program, None)
    for _ in range(7):
        state = method.step(program, state)
    assert state.summed
    assert state.prediction.dtype == state.u.dtype == torch.float64
    point = method.point(program, state)
    exact = program.operator.forward(state.a)
    torch.testing.assert_close(point.prediction, exact, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(state.prediction, exact, rtol=1e-4, atol=1e-5)
    assert not torch.equal(state.prediction, exact)
    anew = method.step(program, replace(state, steps=19))
    assert not anew.summed
    torch.testing.assert_close(anew.u, program.operator.adjoint(anew.s), rtol=0, atol=0)


def test_a_factorisation_is_told_by_its_multiply_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """n³/6 of them, in float32 half as long: what is told too large hands over to another method at once."""
    told: list[float] = []
    monkeypatch.setattr(deadline, "need", told.append)
    for n, share in ((100, 1.0), (600, 0.5)):
        X = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        kernel = Kernel(pn.formulate("mlp", X, X[:, :1], gates=4).program.operator)
        kernel.solve(torch.full((n,), float(n), dtype=torch.float64), X)
        assert told[-1] == pytest.approx(share * n**3 / 6)
