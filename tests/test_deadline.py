"""Deadlines: whatever ends early is looser or shorter, never wrong."""

from __future__ import annotations

import math
import sys
import time

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches, deadline
from provenet.cones import Cones, cone_pca, project, search
from provenet.cones.projection import least
from provenet.gauges import ConeNuclear
from provenet.polar.everywhere import Pull, strongest
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.loop import Limits, run


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cones(N: int, p: int, B: int) -> Cones:
    rows, inside = normal(N, p), normal(B, p, seed=1)
    return Cones.of(rows, inside @ rows.T >= 0, inside)


@pytest.fixture
def problem() -> pn.Problem:
    X, Y = normal(60, 6, seed=2), normal(60, 3, seed=3)
    problem = pn.formulate("mlp", X, Y, activation="relu", gates=12, beta=1.0)
    return problem.with_beta(4.0)


def test_the_shorter_of_nested_deadlines_holds_and_ends_with_its_block() -> None:
    assert deadline.left() == math.inf
    with deadline.within(100.0):
        with deadline.within(None):
            assert 99 < deadline.left() <= 100
        with deadline.within(1000.0):
            assert deadline.left() <= 100
        with deadline.within(0.0):
            assert deadline.over()
        assert not deadline.over()
    assert deadline.left() == math.inf


@pytest.mark.parametrize(("p", "c"), [(6, 1), (6, 3), (3, 2)])
def test_bounds_had_at_once_hold_as_well(p: int, c: int) -> None:
    region, G = cones(30, p, 10), normal(10, p, c, seed=4)
    tight = cone_pca(region, G)
    with deadline.within(0.0):
        rough = cone_pca(region, G)
    assert bool((rough.upper >= tight.lower).all())
    assert bool((rough.lower <= tight.upper * (1 + 1e-12)).all())
    assert bool((rough.upper <= torch.linalg.svdvals(G)[:, 0] * (1 + 1e-9)).all())
    assert float(region.slack(rough.u, torch.arange(10)).min()) >= -1e-8
    reached = torch.bmm(G.mT, rough.u[:, :, None]).flatten(1).norm(dim=1)
    assert bool((reached >= rough.lower * (1 - 1e-9)).all())
    if p > 3:
        assert not bool(rough.exact.any())  # what was not looked for is not claimed
        assert ConeNuclear(region).polar(G).kind == "exact"
        with deadline.within(0.0):
            assert ConeNuclear(region).polar(G).kind == "deterministic"


def test_where_time_is_over_no_step_is_taken_that_is_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    region, G = cones(40, 8, 5), normal(5, 8, 3, seed=6)
    monkeypatch.setattr(search, "_steps", lambda *more: pytest.fail("a step"))
    monkeypatch.setattr(search, "_MOMENT", 0.0)
    with deadline.within(0.0):
        found = cone_pca(region, G)
    assert torch.equal(found.u, region.inside)
    assert bool((found.lower <= found.upper).all())


def test_rows_are_gone_over_some_at_a_time_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    region, g = cones(300, 8, 5), normal(5, 8, seed=6)
    worst, where = least(region.rows, region.signs, g)
    monkeypatch.setattr(batches, "TILE", 1)
    pieces, places = least(region.rows, region.signs, g)
    torch.testing.assert_close(pieces, worst, rtol=1e-12, atol=0)
    assert torch.equal(places, where)


def test_a_projection_that_is_not_finished_says_so() -> None:
    region, g = cones(40, 8, 5), normal(5, 8, seed=6)
    whole = project(region.rows, region.signs, g)
    with deadline.within(0.0):
        short = project(region.rows, region.signs, g)
    assert float(whole.violation.max()) < 1e-10
    assert float(short.violation.max()) > 1e-3
    assert bool((short.multipliers >= 0).all())
    assert bool((short.point.norm(dim=1) >= whole.point.norm(dim=1)).all())  # multipliers certify all the same


def test_the_strongest_pull_of_all_is_bounded_at_once() -> None:
    pull = Pull(normal(50, 4), normal(50, 2, seed=1))
    tight = strongest(pull, normal(3, 4, seed=2))
    with deadline.within(0.0):
        rough = strongest(pull, normal(3, 4, seed=2))
    assert rough.lower <= tight.upper
    assert rough.upper >= tight.lower


@pytest.mark.parametrize("method", ["bm", "frank_wolfe"])
def test_a_run_keeps_its_time_and_is_certified(problem: pn.Problem, method: str) -> None:
    began = time.perf_counter()
    solution = pn.solve(problem, method, tol=1e-12, max_seconds=0.5)
    assert time.perf_counter() - began < 10  # of a second or two, on a machine that others use as well
    assert solution.status in (pn.Status.TIME_LIMIT, pn.Status.STALLED, pn.Status.SOLVED_INACCURATE)
    certificate = solution.certificate
    best = pn.solve(problem, tol=1e-6)
    assert certificate.dual <= best.certificate.primal * (1 + 1e-12)
    assert certificate.primal >= best.certificate.dual * (1 - 1e-12)
    region = problem.program.gauge.region  # type: ignore[attr-defined]
    assert bool((region.slack(solution.factors.left, solution.factors.gate) >= 0).all())


def test_what_was_reached_since_the_last_look_survives_an_interrupt(problem: pn.Problem) -> None:
    class Rare(ConeBM):
        check_every = 100
        reached = math.nan

        def step(self, program, state):  # type: ignore[no-untyped-def]
            if Rare.reached < math.inf:
                raise KeyboardInterrupt
            after = super().step(program, state)
            Rare.reached = after.place.value
            return after

    done = run(Rare(), problem.program, Limits(1e-9))
    assert done.status is pn.Status.INTERRUPTED
    assert done.steps == 1
    assert done.history[-1].primal == pytest.approx(Rare.reached, rel=1e-12)
    assert float(problem.program.objective_factors(done.factors)) == pytest.approx(Rare.reached, rel=1e-12)


def test_an_interrupted_certificate_is_had_at_once(problem: pn.Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[pn.solve.__module__]  # its name is that of the function
    real, calls = module.network_certificate, []

    def impatient(*arguments):  # type: ignore[no-untyped-def]
        calls.append(deadline.left())
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "network_certificate", impatient)
    solution = pn.solve(problem, "bm", tol=1e-4)
    assert calls == [math.inf, 0.0]
    assert solution.status in (pn.Status.INTERRUPTED, pn.Status.SOLVED)
    assert 0 < solution.certificate.relative_gap < 1
    assert solution.factors.n_neurons > 0


@pytest.mark.parametrize("block", ["attention", "mixer", "fno", pn.BFNO(groups=2)])
def test_cones_without_a_table_have_better_bounds_than_the_spectral_norm(block: object) -> None:
    X, Y = np.random.default_rng(0).standard_normal((8, 3, 2)), np.random.default_rng(1).standard_normal((8, 2))
    problem = pn.formulate(block, X, Y, activation="relu", gates=3, beta=0.1)
    program, gauge = problem.program, problem.program.gauge
    assert isinstance(gauge, ConeNuclear)
    G = program.operator.adjoint(program.loss.gradient(torch.zeros_like(program.loss.target)))
    bounds, spectral = gauge.polar(G), torch.linalg.svdvals(G)[:, 0]
    assert float(bounds.upper.max()) < 0.99 * float(spectral.max())
    directions = gauge.region.inside[:, None] + normal(len(G), 400, G.shape[1], seed=9) * normal(400, 1).abs() * 0.3
    for k, u in enumerate(directions):
        there = (gauge.region.slack(u, torch.full((400,), k)) >= 0).all(1)
        value = (u[there] @ G[k]).norm(dim=1) / u[there].norm(dim=1)
        assert bool((value <= bounds.upper[k]).all())
