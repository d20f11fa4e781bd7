"""Dual points that are better for the bounds of their polars: what they promise, the judge confirms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import better_dual, judged
from provenet.certificates.gap import DualPoint, dual_point
from provenet.cones.relaxation import held, hold, relaxed
from provenet.cones.search import climb, glance
from provenet.gauges import BoundKind
from provenet.problem import Program
from provenet.solvers.cones.bm import ConeBM
from provenet.vectors import power_of_two


def loosely_bounded(scale: float = 1.0) -> tuple[Program, DualPoint, float]:
    """A program of wide cones, a dual point near the best, its polars bounded by pairs, and a network's objective."""
    draw = np.random.default_rng(3)
    X, Y = scale * draw.standard_normal((9, 7)), draw.standard_normal((9, 7))
    problem = pn.formulate("mlp", X, Y, "relu", 2, loss="squared", beta=1.0, fit_intercept=False)
    problem = problem.with_beta(0.1 * problem.beta_max)
    program = problem.program.remembering()
    at = ConeBM().init(program, None)
    for _ in range(2):
        at = ConeBM().step(program, at)
    theta = program.loss.dual_at(at.place.prediction)
    (_, cones) = program.gauge.region.tables[0]  # type: ignore[attr-defined]
    G = program.operator.adjoint(-theta / power_of_two(theta))
    u = glance(cones, G).u
    upper = float(relaxed(cones, G, u, torch.zeros(len(G), dtype=G.dtype)).max()) * power_of_two(theta)
    return program, dual_point(program, theta, upper, BoundKind.DETERMINISTIC), at.place.value


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_what_is_promised_is_proven(scale: float) -> None:
    program, at, primal = loosely_bounded(scale)
    found = better_dual(program, at)
    assert found is not None
    proven = judged(program, found.theta, final=False, enough=found.polar_max * (1 + 1e-4))
    assert at.lower + 0.1 * (primal - at.lower) < proven.lower < primal
    assert proven.lower == pytest.approx(found.lower, rel=1e-3)
    (_, cones) = program.gauge.region.tables[0]  # type: ignore[attr-defined]
    assert proven.polar_max >= float(climb(cones, program.operator.adjoint(-found.theta)).value.max()) * (1 - 1e-9)


def test_a_share_of_what_bounds_a_cone_bounds_it() -> None:
    program, at, _ = loosely_bounded()
    (_, cones) = program.gauge.region.tables[0]  # type: ignore[attr-defined]
    G = program.operator.adjoint(-at.theta)
    peak = climb(cones, G).value
    for share in (0.9, 0.5, 0.0):
        hold(cones, torch.full((len(G),), share, dtype=G.dtype))
        assert bool((held(cones, G)[1] >= peak * (1 - 1e-9)).all())


def test_nothing_is_said_of_cones_of_which_nothing_is_known() -> None:
    program, at, _ = loosely_bounded()
    rough = DualPoint(at.theta, 10 * program.beta, at.bound, at.lower)
    (_, cones) = program.gauge.region.tables[0]  # type: ignore[attr-defined]
    hold(cones, torch.zeros(len(cones.signs), dtype=torch.float64))
    assert better_dual(program, rough) is None
