"""The working set for ReLU programs with one output: CVXPY's optimum, exact feasibility, honest certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gauges import ConeNuclear
from provenet.losses import Huber
from provenet.problem import Problem
from provenet.solvers import Status
from provenet.solvers.interior.pairs.caps import Scaling, determinant, product
from provenet.solvers.interior.pairs.ipm import advance, central, residual
from provenet.solvers.interior.pairs.pairs import DistinctRows, Pairs
from provenet.solvers.interior.pairs.slope import Bent, first_slope
from provenet.solvers.interior.pairs.working_set import WorkingSet

ROUNDING = 1e-11


def problem(seed: int = 0, n: int = 20, d: int = 3, loss: str = "squared", share: float = 0.05, **more: Any) -> Problem:
    rng = np.random.default_rng(seed)
    X = more.pop("X", None)
    X = rng.standard_normal((n, d)) if X is None else X
    y = np.maximum(X @ rng.standard_normal((X.shape[1], 4)), 0) @ rng.standard_normal(4)
    y = y + 0.3 * rng.standard_normal(len(X))
    if loss == "logistic":
        y = (y > np.median(y)).astype(float)
    fit_intercept = more.pop("fit_intercept", False)
    settings = {"gates": 12, "seed": seed} | more
    posed = pn.formulate(pn.MLP(fit_intercept=fit_intercept), X, y, activation="relu", loss=loss, **settings)
    return posed.with_beta(share * posed.beta_max)


def least_slack(posed: Problem, network: torch.nn.Module) -> float:
    """min K_k u over all neurons of a network, as the data in the user's units say: row by row, in plain numpy."""
    first = network.first.detach().numpy()  # type: ignore[operator, union-attr]
    X = posed.X.numpy()
    if posed.block.settings().get("fit_intercept"):
        X = np.c_[X, np.ones(len(X))]
    gate = posed.factors(network).gate.numpy()
    signs = np.where(posed.patterns.numpy()[gate], 1.0, -1.0)
    alive = np.linalg.norm(X, axis=1) > 0
    return float((signs * (first @ X.T))[:, alive].min(initial=0.0))


def rank_deficient() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.standard_normal((18, 2)) @ rng.standard_normal((2, 4))


def repeated_rows() -> np.ndarray:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((9, 3))
    return np.concatenate([X, X, 2 * X[:4]])


def zero_rows() -> np.ndarray:
    X = np.random.default_rng(9).standard_normal((16, 3))
    X[::5] = 0
    return X


CASES: dict[str, dict[str, Any]] = {
    "squared": {},
    "small beta": {"share": 1e-3},
    "large beta": {"share": 0.7},
    "weighted": {"sample_weight": np.random.default_rng(5).integers(0, 4, 20).astype(float)},
    "intercept": {"fit_intercept": True},
    "logistic": {"loss": "logistic"},
    "logistic, weighted": {"loss": "logistic", "sample_weight": np.random.default_rng(6).uniform(0.2, 3, 20)},
    "huber": {"loss": "huber"},
    "huber, narrow": {"loss": "huber", "loss_settings": {"delta": 0.02}, "share": 0.01},
    "huber, wide": {"loss": "huber", "loss_settings": {"delta": 50.0}},
    "huber, weighted": {"loss": "huber", "sample_weight": np.random.default_rng(6).uniform(0.2, 3, 20)},
    "rank-deficient": {"X": rank_deficient()},
    "duplicated rows": {"X": repeated_rows()},
    "zero rows": {"X": zero_rows()},
    "one feature": {"d": 1, "gates": "all"},
    "the plane, all arrangements": {"d": 2, "gates": "all"},
    "more features than samples": {"n": 5, "d": 8},
    "one sample": {"n": 1, "d": 2, "gates": 2},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_reaches_the_optimum_of_cvxpy_and_is_exactly_feasible(case: dict[str, Any]) -> None:
    posed = problem(**case)
    best = pn.solve(posed, "cvx", tol=1e-7).certificate.primal
    found = pn.solve(posed, "working_set", tol=1e-8)
    assert found.status is Status.SOLVED, str(found)
    assert found.certificate.relative_gap >= -ROUNDING
    assert found.certificate.primal == pytest.approx(best, rel=2e-7)
    assert found.certificate.dual <= best * (1 + 2e-7)
    assert least_slack(posed, found.network()) >= 0


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss = ("squared", "logistic", "huber")[seed % 3]
    posed = problem(seed, int(rng.integers(4, 30)), int(rng.integers(1, 6)), loss, 10 ** rng.uniform(-3, -0.2))
    best = pn.solve(posed, "cvx", tol=1e-7).certificate.primal
    found = pn.solve(posed, "working_set", tol=1e-7)
    assert found.status is Status.SOLVED, str(found)
    assert found.certificate.relative_gap >= -ROUNDING
    assert abs(found.certificate.primal - best) <= 3e-7 * best
    assert least_slack(posed, found.network()) >= 0


@pytest.mark.parametrize("seed", range(8))
def test_huber_with_outliers_and_more_gates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 150)), int(rng.integers(2, 11))
    X, far = rng.standard_normal((n, d)), 10 * rng.standard_normal(n) * (rng.random(n) < 0.1)
    y = np.maximum(X @ rng.standard_normal((d, 4)), 0) @ rng.standard_normal(4) + far
    posed = pn.formulate("mlp", X, y, activation="relu", loss="huber", gates=50, seed=seed)
    posed = posed.with_beta(10 ** rng.uniform(-3, -0.3) * posed.beta_max)
    found = pn.solve(posed, "working_set", tol=1e-6)
    assert found.status is Status.SOLVED, str(found)
    assert least_slack(posed, found.network()) >= 0


def test_the_slope_of_huber_follows_its_equations() -> None:
    loss = Huber(torch.linspace(-3, 3, 7).double()[:, None], torch.linspace(0.5, 2, 7).double(), delta=0.7)
    prediction, move = torch.zeros(7).double(), torch.linspace(-1, 2, 7).double()
    at = first_slope(loss, prediction, 0.1)
    assert isinstance(at, Bent)
    change = 0.1 - at.products()
    d = at.direction(loss, prediction, move, change)
    assert isinstance(d, Bent)
    torch.testing.assert_close(at.products() + change, at.moved(d, 1.0).products() - at.second(d))
    after = at.moved(d, 1.0)
    residual = prediction + move - loss.target[:, 0] - after.value / loss.sample_weight - after.over + after.under
    assert float(residual.abs().max()) < 1e-12
    # where both multipliers are small, it is the slope of the loss itself
    for _ in range(60):
        d = at.direction(loss, prediction, torch.zeros(7).double(), 0.1 * at.products().mean() - at.products())
        at = at.moved(d, min(1.0, 0.9 / max(at.fall(d), 0.9)))
    torch.testing.assert_close(at.theta(loss, prediction), loss.gradient(prediction[:, None])[:, 0], atol=1e-8, rtol=0)


SCALES = {"tiny data": (1e-8, 1.0), "huge data": (1e8, 1.0), "tiny targets": (1.0, 1e-8), "huge targets": (1.0, 1e8)}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_units_do_not_matter(scale: tuple[float, float], loss: str) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((30, 4)) * scale[0], rng.standard_normal(30) * scale[1]
    posed = pn.formulate("mlp", X, y, activation="relu", loss=loss, gates=20, loss_settings=_delta(loss, scale[1]))
    found = pn.solve(posed.with_beta(0.05 * posed.beta_max), "working_set", tol=1e-6)
    assert found.status is Status.SOLVED, str(found)


def _delta(loss: str, scale: float) -> dict[str, float]:
    return {"delta": scale} if loss == "huber" else {}


@pytest.mark.parametrize("kind", ["columns", "rows", "one direction", "hardly dependent"])
def test_bad_data_end_in_a_proof_or_in_an_honest_status(kind: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((30, 4))
    if kind == "columns":
        X = X * 10.0 ** np.array([-8, -3, 0, 8])
    elif kind == "rows":
        X = X * 10.0 ** rng.uniform(-8, 8, (30, 1))
    elif kind == "one direction":
        X = rng.standard_normal((30, 1)) @ X[:1]
    else:
        X[:, 3] = X[:, 2] * (1 + 1e-9)
    posed = pn.formulate("mlp", X, rng.standard_normal(30), activation="relu", gates=20)
    found = pn.solve(posed.with_beta(0.05 * posed.beta_max), "working_set", tol=1e-6, max_steps=20)
    assert found.certificate.relative_gap >= -ROUNDING
    assert (found.status is Status.SOLVED) == (found.certificate.relative_gap <= 1e-6)


def test_few_pairs_at_first_grow_to_the_same_optimum() -> None:
    posed = problem(n=60, d=4, gates=80, share=0.02)
    every, few = (pn.solve(posed, WorkingSet(first=k), tol=1e-8) for k in (None, 4))
    assert few.status is Status.SOLVED
    assert few.certificate.primal == pytest.approx(every.certificate.primal, rel=2e-8)


def test_zero_from_beta_max_on() -> None:
    posed = problem()
    found = pn.solve(posed.with_beta(posed.beta_max * (1 + 1e-9)), "working_set")
    assert found.status is Status.SOLVED
    assert found.factors.n_neurons == 0


def test_just_below_beta_max() -> None:
    posed = problem(share=0.999)
    found = pn.solve(posed, "working_set", tol=1e-8)
    assert found.status is Status.SOLVED
    assert found.factors.n_neurons > 0


def test_all_arrangements_equal_as_many_sampled_ones() -> None:
    every = problem(n=10, d=2, gates="all")
    sampled = problem(n=10, d=2, gates=400).with_beta(every.beta)
    values = [pn.solve(posed, "working_set", tol=1e-8).certificate for posed in (every, sampled)]
    assert every.program.operator.n_gates - sampled.program.operator.n_gates in (0, 1)  # the closed one is not sampled
    assert values[0].primal == pytest.approx(values[1].primal, rel=2e-8)
    assert [value.scope for value in values] == ["all_arrangements", "fixed_gates"]


def test_a_start_is_left_as_it_was_and_leads_to_the_same_optimum() -> None:
    posed = problem()
    first = pn.solve(posed, "working_set", tol=1e-8)
    start = first.factors.scaled(0.5)
    kept = start.left.clone()
    again = pn.solve(posed, "working_set", tol=1e-8, start=start)
    assert torch.equal(start.left, kept)
    assert again.certificate.primal == pytest.approx(first.certificate.primal, rel=2e-8)


def test_auto_takes_it_for_one_output() -> None:
    assert pn.solve(problem(), tol=1e-6).method == "working_set"


def test_refusals_say_why() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10, 3))
    gated = pn.formulate("mlp", X, rng.standard_normal(10), gates=4)
    with pytest.raises(ValueError, match="needs the ReLU program"):
        pn.solve(gated, "working_set")
    wide = pn.formulate("mlp", X, rng.standard_normal((10, 2)), activation="relu", gates=4)
    with pytest.raises(ValueError, match="needs one output"):
        pn.solve(wide, "working_set")


def test_caps_map_both_points_to_one() -> None:
    rng = torch.Generator().manual_seed(0)
    x, z = ((2 + t, u / u.norm(dim=1, keepdim=True)) for t, u in (_points(rng), _points(rng)))
    W = Scaling.of(x, z)
    for a, b in zip(W.times(z), W.inverse(x), strict=True):
        torch.testing.assert_close(a, b)
    back = W.inverse(W.times(x))
    torch.testing.assert_close(back[1], x[1])
    v = W.divided(product(W.point, x))
    torch.testing.assert_close(v[1], x[1])
    # the root of C, squared, is C
    du = _points(rng)[1]
    torch.testing.assert_close(torch.einsum("jab,jbc,jc->ja", W.root(), W.root(), du), W.slopes(du)[1])
    # the longest step ends on the boundary of one cone and outside of none
    d = _points(rng)
    step = W.longest(W.inverse(d))
    moved = x[0] + step * d[0], x[1] + step * d[1]
    assert abs(float(determinant(moved).min())) < 1e-9


def _points(rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(5, generator=rng).double(), torch.randn(5, 3, generator=rng).double()


def test_central_points_are_central_and_steps_lower_the_complementarity() -> None:
    posed = problem(n=30, d=4)
    program = posed.program
    assert isinstance(program.gauge, ConeNuclear)
    table = DistinctRows.of(program.gauge.region)
    P = program.operator.n_gates
    sign = torch.cat([torch.ones(P), -torch.ones(P)]).double()
    pairs = Pairs.of(program, table, torch.arange(P).repeat(2), sign)
    at = central(table, pairs, torch.zeros(2 * P, program.operator.p).double(), program.beta, 1e-3)
    torch.testing.assert_close(at.s * at.multipliers, torch.full_like(at.s, 1e-3))
    assert float((at.y + pairs.pushed(at.multipliers)).abs().max()) < 0.1 * program.beta
    values = [at.complementarity(program.beta)]
    while values[-1] > 1e-7 * values[0] and len(values) < 40:
        at = advance(program, table, at)
        assert float(at.s.min()) > 0
        assert float(pairs.slack(at.u).min()) > 0
        values.append(at.complementarity(program.beta))
    assert values[-1] < 1e-6 * values[0]
    assert float(residual(program, at).abs().max()) < 1e-6 * program.beta
