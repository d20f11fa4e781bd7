"""A wrong dual point, an edited weight, a starved solver: none yields a certificate that holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import duality_gap, judged, network_certificate
from provenet.gauges import Bounds, NuclearNorm
from provenet.losses import Softmax, Squared
from provenet.proofs.independent import second_opinion
from provenet.solvers import METHODS
from provenet.testing import Case, problem_bank
from provenet.testing.bank import make_case

LOSSES = ["squared", "softmax", "logistic", "huber"]
TOL = 1e-6


@pytest.fixture(scope="module", params=LOSSES)
def solved(request: pytest.FixtureRequest) -> tuple[Case, pn.Solution]:
    case = make_case(request.param, outputs=2)
    solution = pn.solve(case.problem, "admm", tol=TOL)
    assert solution.certificate.holds(TOL)
    return case, solution


def edits(network: torch.nn.Module) -> list[Callable[[], Any]]:
    """Ways to edit a network in place: a weight, a sign, a neuron less, a layer scaled or shifted, everything zero."""
    first, second = network.first.data, network.second.data
    return [
        lambda: first[0, 0].add_(0.1),
        lambda: second[-1, 0].sub_(0.1),
        lambda: first[0].neg_(),
        lambda: second[0].zero_(),
        lambda: first.mul_(1.1),
        lambda: second.add_(1e-2),
        lambda: first.mul_(1e3),
        lambda: (first.mul_(2.0), second.mul_(0.5)),  # the same function, a larger penalty
        lambda: (first.zero_(), second.zero_()),
    ]


@pytest.mark.parametrize("which", range(9))
def test_an_edited_network(solved: tuple[Case, pn.Solution], which: int) -> None:
    case, solution = solved
    network = copy.deepcopy(solution.network())
    edits(network)[which]()
    certificate, verdict = pn.certify(case.problem, network, tol=TOL), case.verify(network)
    assert verdict.relative_gap > TOL
    assert not certificate.holds(TOL)
    assert certificate.status == "not_certified"
    assert certificate.relative_gap == pytest.approx(verdict.relative_gap, rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_weight_that_is_no_number(solved: tuple[Case, pn.Solution], value: float) -> None:
    case, solution = solved
    network = copy.deepcopy(solution.network())
    network.first.data[0, 0] = value
    with pytest.raises(ValueError, match=r"^network: "):
        pn.certify(case.problem, network)


def test_a_network_of_another_problem(solved: tuple[Case, pn.Solution]) -> None:
    case, solution = solved
    network = solution.network()
    assert network.gates is not None
    foreign = copy.deepcopy(network)
    foreign.gates.neg_()
    with pytest.raises(ValueError, match=r"^network: .*gate"):
        pn.certify(case.problem, foreign)
    ungated = pn.nn.MLP.from_weights(network.first.detach(), network.second.detach())
    with pytest.raises(ValueError, match=r"^network: "):
        pn.certify(case.problem, ungated)
    narrow = pn.nn.MLP.from_weights(network.first.detach()[:, 1:], network.second.detach(), network.gates[:, 1:])
    with pytest.raises(ValueError, match=r"^network: "):
        pn.certify(case.problem, narrow)
    with pytest.raises(ValueError, match=r"^network: "):
        pn.certify(case.problem, torch.nn.Linear(3, 2))


def test_another_beta(solved: tuple[Case, pn.Solution]) -> None:
    """Optimal at β is not optimal at β/2, nor at 2β."""
    case, solution = solved
    for factor in (0.5, 2.0):
        assert not pn.certify(case.problem.with_beta(factor * case.problem.beta), solution.network(), tol=TOL).holds(
            TOL
        )


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("auto", "cvx")])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_starved_solver(loss: str, name: str, steps: int) -> None:
    case = make_case(loss, outputs=2, ratio=0.01)
    if METHODS[name]().refuses(case.problem.program) is not None:
        pytest.skip(f"{name} refuses this problem")
    solution = pn.solve(case.problem, name, tol=1e-9, max_steps=steps)
    verdict = case.verify(solution.network(), solution.certificate.theta)  # the run's dual point, where it proves more
    assert solution.certificate.relative_gap == pytest.approx(verdict.relative_gap, rel=1e-6, abs=1e-11)
    assert solution.certificate.holds(1e-9) <= (verdict.relative_gap <= 1e-9 + 1e-11)
    assert (solution.status is pn.Status.SOLVED) == solution.certificate.holds(1e-9)


@pytest.mark.parametrize("case", problem_bank(), ids=str)
def test_wrong_dual_points_stay_below_the_optimum(case: Case) -> None:
    """Whatever point the gap is taken at, its dual value is a lower bound: random, huge and tiny predictions."""
    program = case.problem.program
    generator = torch.Generator().manual_seed(0)
    for scale in (1e-8, 1e-2, 1.0, 1e2, 1e8):
        for _ in range(5):
            prediction = scale * torch.randn(program.operator.output_shape, generator=generator, dtype=torch.float64)
            gap = duality_gap(program, prediction, 0.0)
            assert gap.dual * case.problem.units.value <= case.optimum * (1 + 1e-7)


def test_a_dual_point_from_a_wrong_gradient_is_still_a_bound() -> None:
    """Weak duality asks nothing of Θ: even a loss whose gradient is wrong cannot lift the bound above the optimum."""

    class Wrong(Squared):
        def gradient(self, prediction: torch.Tensor) -> torch.Tensor:
            return 1.7 * super().gradient(prediction) + 0.3

    case = make_case("squared", outputs=2)
    loss = case.problem.program.loss
    program = replace(case.problem.program, loss=Wrong(loss.target, loss.sample_weight))
    optimum = pn.solve(case.problem, "admm", tol=1e-8)
    prediction = program.operator.forward_factors(optimum.factors)
    gap = duality_gap(program, prediction, float(optimum.factors.penalty()))
    assert gap.dual <= case.optimum / case.problem.units.value
    assert gap.relative > TOL


def test_a_dual_point_outside_the_domain_is_minus_infinity() -> None:
    class Wrong(Softmax):
        def gradient(self, prediction: torch.Tensor) -> torch.Tensor:
            return super().gradient(prediction) + 0.1

    case = make_case("softmax", outputs=3)
    loss = case.problem.program.loss
    program = replace(case.problem.program, loss=Wrong(loss.target, loss.sample_weight))
    gap = duality_gap(program, torch.zeros_like(loss.target), 0.0)
    assert gap.dual == -np.inf
    assert not gap.relative <= TOL


def test_a_lower_bound_on_the_polar_would_be_a_false_proof() -> None:
    """Why only upper bounds may enter: with a polar too small, the zero network would pass for optimal."""

    class TooSmall(NuclearNorm):
        def polar(self, stack: torch.Tensor) -> Bounds:
            bounds = super().polar(stack)
            return Bounds(0.01 * bounds.lower, 0.01 * bounds.upper)

    case = make_case("squared", outputs=2, ratio=0.1)
    zero = torch.zeros_like(case.problem.program.loss.target)
    honest = duality_gap(case.problem.program, zero, 0.0)
    fooled = duality_gap(replace(case.problem.program, gauge=TooSmall()), zero, 0.0)
    assert fooled.relative <= TOL < honest.relative
    network = case.problem.network(pn.variable.Factors.empty(3, 2))
    assert case.verify(network).relative_gap == pytest.approx(honest.relative, rel=1e-9)


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-160, 1e-155, 1e100, 1e153, 1e160, 1e306, np.inf, np.nan])
def test_a_dual_point_of_any_size_proves_no_more_than_there_is(size: float) -> None:
    """Squares of what is tiny vanish, of what is huge overflow: neither may make polars look small."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 3)), rng.standard_normal((12, 2))
    problem = pn.formulate("mlp", X, Y, "relu", 8, beta=1.0)
    problem = problem.with_beta(0.1 * problem.beta_max)
    best = pn.solve(problem, tol=1e-6)
    slope = problem.program.loss.gradient(torch.zeros_like(problem.program.loss.target))
    found = judged(problem.program, size * slope).lower * problem.units.value
    assert not found > best.certificate.primal
    if 1e-155 < size < 1e153:  # the size of a dual point says nothing
        assert found == pytest.approx(judged(problem.program, slope).lower * problem.units.value, rel=1e-9)
    again = network_certificate(problem, best.network(), 1e-12, size * slope)
    assert again.dual <= best.certificate.primal


def test_gradients_whose_squares_vanish_prove_no_more_than_there_is() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3, 3)), rng.integers(0, 2, (3, 2)).astype(float)
    problem = pn.formulate("mlp", X, Y, "relu", "all", "logistic", beta=1.0)
    problem = problem.with_beta(1e-160 * problem.beta_max)
    solution = pn.solve(problem, "bm", tol=1e-6, max_seconds=2)
    certificate = solution.certificate
    assert certificate.polar_max > 0.9 * problem.beta
    assert certificate.gap >= 0
    assert pn.certify(solution.network(), X, Y, loss="logistic", beta=problem.beta).polar_max > 0.9 * problem.beta


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_a_dual_point_that_is_out_of_balance_by_less_than_rounding_proves_nothing(loss: str) -> None:
    """Where β is tiny, so is Θ: one of wrong sums or signs would pass for rounding, and pull less than it may."""
    y = np.arange(12) % 2
    X = np.eye(3)[y] + 0.3 * np.random.default_rng(0).standard_normal((12, 3))
    problem = pn.formulate("mlp", X, y if loss == "softmax" else np.eye(2)[y], "linear", loss=loss, beta=1.0)
    problem = problem.with_beta(1e-16 * problem.beta_max)
    solution = pn.solve(problem, tol=1e-7)
    assert solution.certificate.holds(1e-7)
    slope = problem.loss.gradient(torch.as_tensor(solution.network()(torch.as_tensor(X)))).detach()
    theta = slope * (1 - problem.loss.target) if loss == "softmax" else slope - 0.3 * slope.mean()
    for times in (1.0, 1.1, 1.4, 10.0):
        again = network_certificate(problem, solution.network(), 1e-12, times * theta)
        assert again.dual <= again.primal
        assert judged(problem.program, times * theta / problem.units.dual).lower <= again.primal / problem.units.value
        assert second_opinion(problem, solution.network(), theta=times * theta).dual <= again.primal
