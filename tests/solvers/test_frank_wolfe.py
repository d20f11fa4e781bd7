"""Frank–Wolfe, both variants: certified optima of ReLU programs, exactly feasible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import cone_pca
from provenet.data.demo import spiral
from provenet.problem import Problem
from provenet.reproduce.sgd_global import data
from provenet.solvers import Status
from provenet.solvers.cones.classic import ClassicFrankWolfe, largest_atom
from provenet.solvers.cones.frank_wolfe import merge
from provenet.solvers.cones.second_layers import best_second_layers, distinct
from provenet.solvers.loop import Limits
from provenet.solvers.solve import solve_quietly
from provenet.variable import Factors


def test_classic_by_bisection_closes_in_on_t() -> None:
    """t is halved towards the optimum's own, the gap is told at every step, and the objective stays within the rate."""
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((12, 2)), draw.standard_normal((12, 3))
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=1.0, fit_intercept=False)
    problem = problem.with_beta(0.2 * problem.beta_max)
    best = pn.solve(problem, tol=1e-7)
    weights = best.network().state_dict()
    total = float((weights["first"].norm(dim=1) * weights["second"].norm(dim=1)).sum())
    steps = 400
    found = solve_quietly(problem, ClassicFrankWolfe(check_every=1), Limits(1e-12, steps))
    assert [record.step for record in found.history] == list(range(steps + 1))
    assert all(record.dual <= best.certificate.primal * (1 + 1e-9) for record in found.history)
    assert found.certificate.primal / best.certificate.primal - 1 < 2e-3
    exact = solve_quietly(problem, ClassicFrankWolfe(total=total), Limits(1e-12, steps))
    promised = 8 * total**2 * np.linalg.norm(X, 2) ** 2 / (steps + 2)
    assert exact.certificate.primal - best.certificate.dual <= promised


def test_the_search_over_t_is_not_stuck_at_a_small_beta() -> None:
    """CP §5.1's data at 0.01 β_max: t* stays within the bracket, and the objective comes down with the steps."""
    X, Y = data()
    problem = pn.formulate("mlp", X.numpy(), Y.numpy(), "relu", gates="all", beta=1.0, fit_intercept=False)
    problem = problem.with_beta(0.01 * problem.beta_max)
    best = pn.solve(problem, tol=1e-6).certificate
    above = [
        solve_quietly(problem, ClassicFrankWolfe(), Limits(1e-12, steps)).certificate.primal / best.primal - 1
        for steps in (300, 1_200)
    ]
    assert above[0] < 0.2
    assert above[1] < 0.02


@pytest.mark.parametrize("loss", ["squared", "softmax", "huber"])
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_the_best_t_is_never_shut_out(loss: str, share: float) -> None:
    problem = planar(10, 3, share, loss=loss)
    total = float(pn.solve(problem, tol=1e-8).factors.penalty())
    method = ClassicFrankWolfe()
    state = method.init(problem.program, None)
    for _ in range(150):
        state = method.step(problem.program, state)
        assert state.low <= total * (1 + 1e-3)
        assert state.high >= total * (1 - 1e-3)


def planar(n: int, c: int, share: float, seed: int = 0, loss: str = "squared") -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    Y = rng.standard_normal((n, c)) if loss in ("squared", "huber") else rng.integers(0, max(c, 2), n)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss=loss, beta=1.0)
    return problem.with_beta(share * problem.beta_max)


def feasible(problem: Problem, factors: Factors) -> bool:
    cones = problem.program.gauge.region
    return bool((cones.slack(factors.left, factors.gate) >= 0).all())


@pytest.mark.parametrize("c", [1, 5])
@pytest.mark.parametrize("share", [0.3, 0.1, 0.01])
def test_every_arrangement_of_25_points_in_a_few_steps(c: int, share: float) -> None:
    problem = planar(25, c, share)
    assert len(problem.patterns) == 50
    solution = pn.solve(problem, "frank_wolfe", tol=1e-6)
    assert solution.status is Status.SOLVED
    assert solution.certificate.scope == "all_arrangements"
    assert solution.certificate.bound == "exact"
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.steps <= 10
    assert solution.factors.n_neurons <= 60
    assert feasible(problem, solution.factors)


@pytest.mark.parametrize("beta", [1e-2, 1e-1, 1.0, 10.0])
def test_the_spiral_of_cp_figure_3(beta: float) -> None:
    X, y = spiral(60)
    problem = pn.formulate("mlp", X, np.eye(3)[y], "relu", gates="all", loss="squared", beta=beta)
    solution = pn.solve(problem, "frank_wolfe", tol=1e-6)
    assert solution.status is Status.SOLVED
    assert solution.certificate.scope == "all_arrangements"
    assert solution.factors.n_neurons == 0 or beta < problem.beta_max


@pytest.mark.parametrize("loss", ["logistic", "softmax", "huber"])
def test_any_loss(loss: str) -> None:
    problem = planar(20, 3 if loss != "logistic" else 1, 0.1, seed=1, loss=loss)
    solution = pn.solve(problem, "frank_wolfe", tol=1e-6)
    assert solution.status is Status.SOLVED
    assert feasible(problem, solution.factors)


@pytest.mark.parametrize("seed", range(3))
def test_more_dimensions_and_sampled_arrangements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    problem = pn.formulate("mlp", X, Y, "relu", gates=30, loss="squared", beta=1.0)
    solution = pn.solve(problem.with_beta(0.1 * problem.beta_max), "frank_wolfe", tol=1e-6)
    assert solution.status is Status.SOLVED
    assert solution.certificate.scope == "fixed_gates"


def test_a_convolution() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 1, 4, 4)), rng.standard_normal((8, 2))
    problem = pn.formulate(pn.CNN(kernel=2, stride=2, pool=1), X, Y, "relu", gates=10, loss="squared", beta=1.0)
    solution = pn.solve(problem.with_beta(0.3 * problem.beta_max), "frank_wolfe", tol=1e-4)
    assert solution.certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("block", ["attention", "mixer", "fno", pn.BFNO(groups=2)], ids=str)
def test_blocks_whose_cones_have_no_table(block: Any) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3, 3, 2)), rng.standard_normal((3, 2))
    problem = pn.formulate(block, X, Y, "relu", gates=4, loss="squared", beta=1.0)
    problem = problem.with_beta(0.3 * problem.beta_max)
    wolfe, bm = (pn.solve(problem, method, tol=1e-5) for method in ("frank_wolfe", "bm"))
    assert wolfe.certificate.primal == pytest.approx(bm.certificate.primal, rel=1e-5)
    assert wolfe.certificate.dual <= bm.certificate.primal * (1 + 1e-12)
    assert wolfe.certificate.scope == "fixed_gates"
    region = problem.program.gauge.region
    assert bool((region.slack(wolfe.factors.left, wolfe.factors.gate) >= 0).all())
    total = float(bm.factors.penalty()) * problem.units.z
    classic = pn.solve(problem, ClassicFrankWolfe(total=total), tol=1e-9, max_steps=20)
    nothing = 0.5 * float(np.square(Y).sum())
    assert bm.certificate.dual <= classic.certificate.primal < 0.5 * (nothing + bm.certificate.primal)


def test_the_classic_variant_comes_to_the_same_value() -> None:
    problem = planar(12, 2, 0.3, seed=3)
    best = pn.solve(problem, "frank_wolfe", tol=1e-8)
    classic = pn.solve(problem, ClassicFrankWolfe(), tol=1e-2)
    assert classic.status is Status.SOLVED
    assert classic.certificate.primal >= best.certificate.dual * (1 - 1e-12)
    assert classic.certificate.dual <= best.certificate.primal * (1 + 1e-12)
    assert feasible(problem, classic.factors)


@pytest.mark.parametrize(("n", "p", "c", "share"), [(25, 2, 5, 0.1), (25, 2, 1, 0.1), (20, 3, 2, 0.3), (10, 1, 2, 0.1)])
def test_the_classic_variant_finds_its_total_soon(n: int, p: int, c: int, share: float) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, c))
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", loss="squared", beta=1.0)
    problem = problem.with_beta(share * problem.beta_max)
    classic = pn.solve(problem, ClassicFrankWolfe(), tol=1e-2, max_steps=3_000)  # with the best t: up to 1,069
    assert classic.status is Status.SOLVED
    assert feasible(problem, classic.factors)


def test_the_planar_oracle_is_cone_constrained_pca() -> None:
    problem = planar(20, 3, 0.1)
    gauge = problem.program.gauge
    for seed in range(5):
        stack = torch.randn(len(problem.patterns), 2, 3, generator=torch.Generator().manual_seed(seed)).double()
        atom = largest_atom(gauge, stack)
        best = cone_pca(gauge.region, stack)
        value = float(atom.left[0] @ stack[atom.gate[0]] @ atom.right[0])
        assert value == pytest.approx(float(best.lower.max()), rel=1e-12)
        assert int(atom.gate[0]) == int(best.lower.argmax())
        assert float(gauge.region.slack(atom.left, atom.gate).min()) >= -1e-14


def test_the_classic_variant_at_the_right_total() -> None:
    """CP eq. 14 with the t of the optimum: the constrained problem is the penalised one."""
    problem = planar(12, 2, 0.3, seed=3)
    best = pn.solve(problem, "frank_wolfe", tol=1e-8)
    total = float(best.factors.penalty()) * problem.units.z
    classic = pn.solve(problem, ClassicFrankWolfe(total=total), tol=1e-2)
    assert classic.status is Status.SOLVED
    assert float(classic.factors.penalty()) * problem.units.z <= total * (1 + 1e-9)


def test_settings_that_make_no_sense_are_named() -> None:
    with pytest.raises(ValueError, match="total"):
        ClassicFrankWolfe(total=-1.0)


def test_second_layers_satisfy_their_optimality_conditions() -> None:
    """‖A_j*∇L‖ ≤ β, with equality and opposite direction where v_j is not zero."""
    program = planar(30, 3, 0.05, seed=5).program
    cones = program.gauge.region
    gate = torch.arange(len(cones.inside))
    columns = program.operator.second_layer_columns(cones.inside, gate)
    found = best_second_layers(program.loss, program.beta, columns)
    pull = columns.flatten(2) @ program.loss.gradient(found.prediction).flatten()
    assert float(pull.norm(dim=1).max()) <= program.beta * (1 + 1e-7)
    size = found.v.norm(dim=1)
    active = size > 1e-5 * size.max()
    assert 0 < int(active.sum()) < len(size)
    assert torch.allclose(pull[active], -program.beta * found.v[active] / size[active, None], atol=1e-5 * program.beta)


def test_atoms_on_a_shared_ray_are_one() -> None:
    program = planar(15, 2, 0.1).program
    cones = program.gauge.region
    rays, gate = cones.faces.rays.flatten(0, 1), torch.arange(len(cones.inside)).repeat_interleave(2)
    kept = distinct(program.operator.second_layer_columns(rays, gate))
    assert kept.numel() <= len(cones.inside) + 2  # each ray bounds two cones, one of which may be the closed one


def test_merging_keeps_neurons_in_their_cones() -> None:
    problem = planar(15, 2, 0.1)
    cones = problem.program.gauge.region
    u = cones.inside[[0, 0, 1]] + torch.tensor([[0.0, 0.0], [1e-9, 0.0], [0.0, 0.0]], dtype=torch.float64)
    v = torch.tensor([[1.0, 0.0], [1.0, 1e-6], [0.0, 1.0]], dtype=torch.float64)
    merged = merge(Factors(u, v, torch.tensor([0, 0, 1])))
    assert merged.n_neurons == 2
    assert feasible(problem, merged)
    assert torch.allclose(merged.stack(2), Factors(u, v, torch.tensor([0, 0, 1])).stack(2), atol=1e-6)


@pytest.mark.parametrize("method", ["auto", "frank_wolfe", "cone_bm"])
@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_a_start_from_a_smaller_beta_shrinks(method: str, loss: str) -> None:
    """Its neurons are far too large, and its slopes so small that no arrangement offers another."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((40, 2))
    Y = np.eye(2)[(X[:, 0] * X[:, 1] > 0).astype(int)]
    problem = pn.formulate("mlp", X, Y, "relu", loss=loss, beta=1.0, gates="trained", n_gates=8, fit_intercept="free")
    small, large = (problem.with_beta(share * problem.beta_max) for share in (0.01, 0.4))
    start = pn.solve(small, tol=1e-3)
    found = pn.solve(large, method, tol=1e-2, start=start)
    assert found.certificate.holds(1e-2)
    assert found.factors.n_neurons > 0
