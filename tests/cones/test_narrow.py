"""Cones of many rows: an elliptic cone around them bounds every pull, and is far narrower than all directions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import deadline
from provenet.blocks.implicit import implicit_cones
from provenet.cones import ImplicitCones, cone_pca
from provenet.cones.search import climb
from provenet.gauges import ConeNuclear

BLOCKS = {"mixer": (80, 3, 2), "attention": (40, 3, 2), "fno": (80, 3, 2), "bfno": (80, 3, 2)}


def posed(name: str, seed: int, scale: float = 1.0, whole: bool = False) -> pn.Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(BLOCKS[name])
    X = np.round(2 * X) if whole else scale * X
    block = pn.BFNO(groups=2) if name == "bfno" else name
    return pn.formulate(
        block, X, rng.standard_normal((len(X), 2)), activation="relu", gates=4, beta=0.1 * scale, seed=seed
    )


def cones(name: str, seed: int, **more: object) -> ImplicitCones:
    problem = posed(name, seed, **more)  # type: ignore[arg-type]
    return implicit_cones(problem.on_data, problem.gates)


def pulls(region: ImplicitCones, seed: int) -> Iterator[torch.Tensor]:
    """Of no direction, along the cones, and against them."""
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(*region.inside.shape, 3, generator=draw, dtype=torch.float64)
    along = region.inside[:, :, None] * torch.randn(1, 1, 3, generator=draw, dtype=torch.float64)
    yield from (noise, 0.1 * noise + 3 * along, 1e-3 * noise - along)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BLOCKS)
def test_no_neuron_in_a_cone_pulls_harder(name: str, seed: int) -> None:
    region = cones(name, seed)
    for G in pulls(region, seed):
        upper = region.bounded(G)
        assert bool(torch.isfinite(upper).all())
        found = climb(region, G).value
        for gates, table in region.tables:
            found[gates] = torch.maximum(found[gates], cone_pca(table, G[gates]).lower)
        assert bool((upper >= found * (1 - 1e-12)).all())


@pytest.mark.parametrize("name", BLOCKS)
def test_it_is_far_closer_than_the_spectral_norm(name: str) -> None:
    region = cones(name, 7)
    G = next(pulls(region, 7))
    assert float((region.bounded(G) / torch.linalg.matrix_norm(G, 2)).median()) < 0.9


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    region, other = cones("mixer", 1), cones("mixer", 1, scale=scale)
    G = next(pulls(region, 1))
    torch.testing.assert_close(other.bounded(G), region.bounded(G), rtol=1e-6, atol=0)


def test_rows_that_coincide_are_no_trouble() -> None:
    region = cones("mixer", 3, whole=True)
    G = next(pulls(region, 3))
    assert bool((region.bounded(G) >= climb(region, G).value * (1 - 1e-12)).all())


def test_some_gates_are_bounded_as_all_are() -> None:
    region = cones("mixer", 2)
    G, some = next(pulls(region, 2)), torch.tensor([3, 1])
    alone = cones("mixer", 2).restrict(some).bounded(G[some])
    torch.testing.assert_close(region.bounded(G)[some], alone, rtol=1e-9, atol=0)


def test_without_time_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    region = cones("mixer", 2)
    seconds = count()
    monkeypatch.setattr(deadline, "time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))
    with deadline.within(0.0):
        assert bool((region.bounded(next(pulls(region, 2))) == torch.inf).all())


def test_a_certificate_without_a_table_says_more_than_by_the_spectral_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pn.solve(posed("mixer", 5), "bm", tol=1e-1, max_steps=2)
    monkeypatch.setattr("provenet.cones.implicit._TABLE_NUMBERS", 0)
    monkeypatch.setattr("provenet.blocks.base._TABLE_NUMBERS", 0, raising=False)
    problem = posed("mixer", 5)
    region = implicit_cones(problem.on_data, problem.gates)
    assert region.tables == []
    program = problem.program
    theta = program.loss.gradient(torch.zeros_like(program.loss.target))
    G = -program.operator.adjoint(theta)
    gauge = ConeNuclear(region)
    assert float(gauge.largest(G).upper.max()) < 0.9 * float(torch.linalg.matrix_norm(G, 2).max())
    found = pn.solve(problem, "bm", tol=1e-1, max_steps=2)
    assert found.certificate.dual <= whole.certificate.primal
    assert found.certificate.primal >= whole.certificate.dual
