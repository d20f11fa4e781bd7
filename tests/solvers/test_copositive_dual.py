"""The copositive relaxation where only its dual can be solved: a valid bound, near the relaxation's optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import deadline
from provenet.cones import Cones
from provenet.gauges import ConeNuclear
from provenet.problem import Problem
from provenet.solvers.cones.frank_wolfe import fully_corrected
from provenet.solvers.interior.copositive.barrier import Barrier
from provenet.solvers.interior.copositive.cuts import Cuts
from provenet.solvers.interior.copositive.dense import Copositive
from provenet.solvers.interior.copositive.dual import CopositiveDual, DualState
from provenet.variable import Factors

LOSSES = ("squared", "softmax", "logistic", "huber")


def targets(rng: np.random.Generator, n: int, c: int, loss: str) -> np.ndarray:
    Y = rng.standard_normal((n, c))
    return Y.argmax(1) if loss == "softmax" else (Y > 0).astype(float) if loss == "logistic" else Y


def posed(block: object, X: np.ndarray, Y: np.ndarray, share: float = 0.1, **settings: object) -> Problem:
    problem = pn.formulate(block, X, Y, activation="relu", **({"gates": 20} | settings))
    return problem.with_beta(share * problem.beta_max)


def cones_of(problem: Problem) -> Cones:
    assert isinstance(problem.program.gauge, ConeNuclear)
    return problem.program.gauge.region


@pytest.mark.parametrize("loss", LOSSES)
def test_between_the_relaxation_and_the_optimum(loss: str) -> None:
    rng = np.random.default_rng(0)
    problem = posed("mlp", rng.standard_normal((20, 4)), targets(rng, 20, 3, loss), loss=loss, gates=12)
    bound = pn.solve(problem, CopositiveDual(accuracy=1e-4))
    optimum = pn.solve(problem, "bm", tol=1e-4, max_steps=8).certificate
    assert bound.lower_bound <= min(optimum.primal, bound.certificate.primal)
    assert bound.lower_bound >= 0.998 * optimum.primal
    assert bound.certificate.primal <= 1.01 * optimum.primal
    slack = cones_of(problem).slack(bound.factors.left, bound.factors.gate)
    assert bool((slack >= 0).all())


def test_the_same_bound_as_the_dense_interior_point() -> None:
    rng = np.random.default_rng(1)
    problem = posed("mlp", rng.standard_normal((8, 3)), rng.standard_normal((8, 2)), gates="all")
    dense = pn.solve(problem, Copositive(), tol=1e-9).lower_bound
    few = pn.solve(problem, CopositiveDual(accuracy=1e-5)).lower_bound
    assert few == pytest.approx(dense, rel=1e-5)


@pytest.mark.parametrize("block", ["cnn", "poolformer", "fnet", "tokens"])
def test_other_blocks(block: str) -> None:
    rng = np.random.default_rng(2)
    if block == "cnn":
        problem = posed(
            pn.CNN(kernel=2, pool=2), rng.standard_normal((12, 1, 5, 5)), rng.standard_normal((12, 2)), gates=8
        )
    elif block == "tokens":
        X, Y = rng.standard_normal((12, 4, 3)), rng.standard_normal((12, 4, 2))
        problem = posed("poolformer", X, Y, readout="tokens", gates=10)
    else:
        problem = posed(block, rng.standard_normal((12, 4, 3)), rng.standard_normal((12, 2)), gates=10)
    bound = pn.solve(problem, CopositiveDual(accuracy=1e-4))
    optimum = pn.solve(problem, "bm", tol=1e-4, max_steps=8).certificate.primal
    assert 0.995 * optimum <= bound.lower_bound <= min(optimum, bound.certificate.primal)


def test_better_than_any_spectral_bound_where_the_dense_form_refuses() -> None:
    """The gated program with these gates is the best that spectral norms can prove."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 10))
    Y = np.maximum(X @ rng.standard_normal((10, 6)), 0) @ rng.standard_normal((6, 7)) + 0.5 * rng.standard_normal(
        (80, 7)
    )
    problem = pn.formulate("mlp", X, Y, activation="relu", gates=75, beta=20.0)
    assert "unknowns" in str(Copositive().refuses(problem.program))
    gated = pn.formulate("mlp", X, Y, activation="gated_relu", gates=problem.gate_vectors, beta=20.0)
    spectral = pn.solve(gated, tol=1e-4).certificate.primal
    method = CopositiveDual(accuracy=2e-2)
    state = method.init(problem.program, None)
    while not method.finished(state):
        state = method.step(problem.program, state)
    network = method.point(problem.program, state).factors()
    primal = float(problem.program.objective_factors(network)) * problem.units.value
    bound = state.best.lower * problem.units.value
    assert spectral * 1.05 < bound <= primal
    assert primal <= 1.05 * bound


def test_the_name_takes_what_the_dense_form_refuses() -> None:
    rng = np.random.default_rng(4)
    problem = posed("mlp", rng.standard_normal((12, 2)), targets(rng, 12, 3, "softmax"), loss="softmax", gates="all")
    solution = pn.solve(problem, "copositive", tol=1e-2)
    assert solution.method == "copositive_dual"
    assert solution.certificate.scope == "all_arrangements"
    assert solution.certificate.primal * 0.99 <= solution.lower_bound <= solution.certificate.primal


@pytest.mark.parametrize("seed", range(3))
def test_any_multipliers_prove_a_bound(seed: int) -> None:
    """After the first steps, with Θ and s changed at random: never above a network's objective."""
    from provenet.solvers.interior.copositive.bound import proven

    rng = np.random.default_rng(seed)
    problem = posed("mlp", rng.standard_normal((15, 3)), rng.standard_normal((15, 2)), gates="all")
    primal = pn.solve(problem, "frank_wolfe", tol=1e-4).certificate.primal / problem.units.value
    method = CopositiveDual()
    state: DualState = method.init(problem.program, None)
    for _ in range(6):
        state = method.step(problem.program, state)
        s = state.cuts.s * torch.from_numpy(rng.uniform(0, 3, state.cuts.s.shape))
        theta = state.theta * (1 + 0.1 * torch.from_numpy(rng.standard_normal(state.theta.shape)))
        assert proven(problem.program, theta, state.cuts.combined(s), s.sum(1), s.shape[1]).lower <= primal


def test_walls_join_once_and_stay_within_their_number() -> None:
    rng = np.random.default_rng(5)
    problem = posed("mlp", rng.standard_normal((20, 4)), rng.standard_normal((20, 2)), gates=5)
    cones, gates = cones_of(problem), torch.arange(5)
    R = torch.eye(4, dtype=torch.float64).expand(5, 4, 4)
    T = torch.linalg.inv(R)
    cuts = Cuts.none(5, 4, torch.float64)
    for _ in range(4):
        cuts = cuts.with_violated(cones, T, R - cuts.combined(cuts.s), gates, few=6, most=20)
    assert cuts.s.shape == (5, 20)
    assert bool((torch.linalg.eigvalsh(R - cuts.combined(cuts.s)) > 0).all())
    for k in range(5):
        there = cuts.there[k]
        pairs = torch.stack([cuts.first[k], cuts.second[k]], dim=1)[there]
        assert len(torch.unique(pairs, dim=0)) == len(pairs)
        assert bool((cuts.first[k] < cuts.second[k])[there].all())
    torch.testing.assert_close(cuts.a, cones.rows[cuts.first] * torch.gather(cones.signs, 1, cuts.first)[:, :, None])


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_is_that_of_the_barrier_function(loss: str) -> None:
    """The decrement is −slopeᵀstep: checked against differences of F along the step."""
    rng = np.random.default_rng(6)
    problem = posed("mlp", rng.standard_normal((15, 3)), targets(rng, 15, 2, loss), loss=loss, gates=4)
    program = problem.program
    conjugate = program.loss.smooth_conjugate()
    assert conjugate is not None
    barrier = Barrier(program, conjugate)
    state = CopositiveDual().init(program, None)
    R, _ = barrier.room(state.theta, state.cuts)
    cuts = state.cuts.with_violated(cones_of(problem), torch.linalg.inv(R), R, torch.arange(4), few=5, most=5)
    mu, theta = state.mu, state.theta
    last = float("inf")
    for _ in range(40):
        before = barrier.value(theta, cuts, mu)
        theta, cuts, decrement = barrier.newton(theta, cuts, mu)
        assert barrier.value(theta, cuts, mu) <= before + 1e-12 * abs(before)
        last = decrement
        if decrement < 1e-8:
            break
    assert last < 1e-8
    nudge = 1e-5 * torch.randn(theta.shape, dtype=theta.dtype, generator=torch.Generator().manual_seed(0))
    nudge = nudge - nudge.mean(-1, keepdim=True)  # softmax: within the simplex
    centre = barrier.value(theta, cuts, mu)
    assert barrier.value(theta + nudge, cuts, mu) >= centre - 1e-12 * abs(centre)
    assert barrier.value(theta - nudge, cuts, mu) >= centre - 1e-12 * abs(centre)


def test_refusals_name_the_reason() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    with pytest.raises(ValueError, match="table of rows"):
        pn.solve(pn.formulate("mlp", X, Y, gates=4), "copositive")
    assert CopositiveDual().memory(posed("mlp", X, Y).program) > 0


def test_atoms_that_reach_nothing_leave_no_neuron() -> None:
    """What a dual point suggests may lie behind gates that let nothing through."""
    rng = np.random.default_rng(0)
    program = posed("mlp", np.abs(rng.standard_normal((6, 3))), rng.standard_normal((6, 2))).program
    nothing = Factors.empty(3, 2)
    atom = Factors(
        torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64), torch.zeros(1).long()
    )
    found = fully_corrected(program, nothing, atom)
    assert found.factors.n_neurons == 0
    assert found.value == program.loss.value(torch.zeros_like(program.loss.target))


def test_a_step_that_takes_longer_than_there_is_time_is_not_begun() -> None:
    rng = np.random.default_rng(0)
    program = posed("mlp", rng.standard_normal((30, 25)), rng.standard_normal((30, 2))).program
    method = CopositiveDual()
    state = method.init(program, None)
    with deadline.within(1e-5):
        after = method.step(program, state)
    assert after.stuck
    assert after.theta is state.theta
