"""Work in parts that looks at the clock, and never has more of its parts in memory than a few."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches, deadline
from provenet.blocks.implicit import implicit_cones
from provenet.cones import Cones, cone_pca, project
from provenet.polar import polar_bounds

BLOCKS = ["attention", "mixer", "fno", pn.BFNO(groups=2)]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every look takes a second: nothing hangs on how fast this machine is."""
    seconds = count()
    monkeypatch.setattr(deadline, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))


@pytest.fixture
def sample_by_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    for budget in ("BATCH", "TILE", "BLOCK", "KEPT", "MOST_KEPT"):
        monkeypatch.setattr(batches, budget, 1)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens(block: object, readout: str = "mean", activation: str = "relu") -> pn.Problem:
    X, Y = np.random.default_rng(0).standard_normal((12, 3, 2)), np.random.default_rng(1).standard_normal((12, 2))
    if readout == "tokens":
        Y = np.random.default_rng(1).standard_normal((12, 3, 2))
    return pn.formulate(block, X, Y, activation=activation, gates=3, beta=0.1, readout=readout)


def test_work_in_parts_ends_as_soon_as_its_pace_says_that_it_takes_too_long(slow: None) -> None:
    done: list[int] = []
    with deadline.within(20.0), pytest.raises(deadline.TooLong):
        done.extend(deadline.paced(range(1000)))
    assert 1 <= len(done) <= 3
    assert list(deadline.paced(range(1000))) == list(range(1000))
    with deadline.within(100.0):
        assert list(deadline.paced(range(20))) == list(range(20))


def test_what_has_one_part_is_always_done(slow: None) -> None:
    with deadline.within(0.0):
        assert list(deadline.paced(["all"])) == ["all"]


def test_at_once_nothing_is_searched_for_and_products_are_made(slow: None) -> None:
    with deadline.within(1e4), deadline.at_once():
        assert deadline.over()
        assert list(deadline.paced(range(50))) == list(range(50))


@pytest.mark.parametrize("readout", ["mean", "tokens"])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_without_time_for_a_product_its_polar_is_bounded_by_its_size(
    block: object, readout: str, slow: None, sample_by_sample: None
) -> None:
    problem = tokens(block, readout)
    program = problem.program
    theta = program.loss.gradient(torch.zeros_like(program.loss.target))
    tight = polar_bounds(program.operator, program.gauge, theta)
    with deadline.within(0.0):
        rough = polar_bounds(program.operator, program.gauge, -theta)  # not what a product is remembered of
    assert rough.stack is None
    assert bool((rough.upper >= tight.upper).all())
    assert bool(torch.isfinite(rough.upper).all())


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_beta_max_is_no_mere_bound_however_short_the_time(block: object, slow: None, sample_by_sample: None) -> None:
    """Shares of a bound by size alone would be another β than what was asked for."""
    found = []
    for limit in (None, 0.0):
        problem = tokens(block, activation="gated_relu")
        with deadline.within(limit):
            found.append(problem.beta_max)
    assert found[1] == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_run_without_time_for_a_single_product_is_certified(block: object, request: pytest.FixtureRequest) -> None:
    problem = tokens(block)
    best = pn.solve(problem, "bm", tol=1e-1, max_steps=2)
    request.getfixturevalue("slow")
    request.getfixturevalue("sample_by_sample")
    found = pn.solve(problem, "bm", tol=1e-3, max_seconds=1.0)
    assert found.status is pn.Status.TIME_LIMIT
    assert found.certificate.dual <= best.certificate.primal
    assert found.certificate.primal >= best.certificate.dual


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_many_vectors_are_projected_with_few_rows_at_a_time(block: object, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tokens(block)
    cones = implicit_cones(problem.on_data, problem.gates)
    gate = torch.arange(3).repeat_interleave(4)
    g = normal(len(gate), problem.gate_vectors.shape[1])
    whole = project(cones.rows, cones.signs[gate], g)
    largest = []
    sides = type(cones.rows).sides

    def watched(rows, u, span):  # type: ignore[no-untyped-def]
        found = sides(rows, u, span)
        largest.append(found.numel())
        return found

    monkeypatch.setattr(type(cones.rows), "sides", watched)
    limit = 32 * 8 * len(gate) * 3 * cones.rows.each  # three samples
    with batches.within(limit):
        again = project(cones.rows, cones.signs[gate], g)
    assert max(largest) * 8 <= limit // 32
    torch.testing.assert_close(again.point, whole.point, rtol=0, atol=1e-9)
    assert float(again.violation.max()) < 1e-10


def test_rows_that_there_is_no_time_for_leave_points_outside(slow: None, sample_by_sample: None) -> None:
    problem = tokens("mixer")
    cones = implicit_cones(problem.on_data, problem.gates)
    u = cones.inside.clone()
    with deadline.within(0.0):
        found = project(cones.rows, cones.signs, normal(*u.shape))
        assert torch.equal(cones.pulled_inside(u, torch.arange(len(u))), u)
    assert bool((found.violation == torch.inf).all())
    assert bool((found.multipliers >= 0).all())


def test_facets_are_not_found_for_longer_than_there_is_time(slow: None) -> None:
    rows, inside = normal(40, 5), normal(30, 5, seed=1)
    cones = Cones.of(rows, inside @ rows.T >= 0, inside)
    G = normal(30, 5, 7, seed=2)
    with deadline.within(3.0), pytest.raises(deadline.TooLong):
        _ = cones.facets
    with deadline.within(40.0):
        rough = cone_pca(cones, G)
    assert bool((rough.upper >= cone_pca(cones, G).lower * (1 - 1e-12)).all())
