"""Burer–Monteiro, ADMM and the decomposition of gated solutions for ReLU programs: optimal where the polar is exact,
feasible in exact comparison for every block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.blocks.implicit import implicit_cones
from provenet.cones import Table
from provenet.cones.projection import in_spans
from provenet.gauges import ConeNuclear
from provenet.solvers import Solution, to_relu
from provenet.solvers.cones.bm import ConeBM
from provenet.solvers.cones.faces import descent, feasible
from provenet.variable import Factors


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


BLOCKS: list[tuple[Any, tuple[int, ...]]] = [
    (pn.CNN(kernel=2, stride=2, pool=2), (6, 1, 4, 4)),
    ("attention", (8, 3, 2)),
    ("mixer", (8, 2, 3)),
    ("fno", (8, 3, 2)),
    (pn.FNO(grid=(2, 2)), (8, 4, 1)),
    (pn.BFNO(groups=2), (8, 3, 4)),
    ("poolformer", (8, 4, 3)),
    ("fnet", (8, 3, 3)),
]
NAMES = [block if isinstance(block, str) else type(block).__name__ + str(k) for k, (block, _) in enumerate(BLOCKS)]
TOKENS = [(block, shape) for block, shape in BLOCKS if not isinstance(block, pn.CNN)]


def relu_problem(
    block: Any, X: np.ndarray, outputs: int, gates: Any = 8, ratio: float = 0.1, readout: str = "mean", **settings: Any
) -> pn.Problem:
    shape = X.shape[:2] if readout == "tokens" else X.shape[:1]
    Y = normal(*shape, outputs, seed=1)
    if settings.get("loss") == "softmax":
        Y = np.eye(outputs)[Y.argmax(-1)]
    problem = pn.formulate(block, X, Y, "relu", gates, beta=1.0, readout=readout, **settings)
    return problem.with_beta(ratio * problem.beta_max)


def assert_feasible(solution: Solution) -> None:
    """K_k u ≥ 0 in exact comparison: the network opens exactly the rows that the program opens."""
    problem = solution.problem
    first = solution.network().first.detach()
    group = torch.zeros(len(first), dtype=torch.long)
    if problem.gates.group is not None:
        group = problem.gates.group[solution.factors.gate]
    assert len(first) > 0
    for b in torch.unique(group).tolist():
        own = group == b
        patterns, torn = problem.on_data.groups[b].patterns(first[own])
        assert not bool(torn.any())
        assert torch.equal(patterns, problem.patterns[solution.factors.gate[own]])


def assert_same_objective(solution: Solution) -> None:
    """The program's value at the neurons is the network's own loss and weight decay."""
    problem, network = solution.problem, solution.network()
    with torch.no_grad():
        own = float(problem.loss.value(network(problem.X)) + problem.beta * network.penalty())
    program = float(problem.program.objective_factors(solution.factors)) * problem.units.value
    assert own == pytest.approx(program, rel=1e-11)
    assert solution.certificate.primal == pytest.approx(own, rel=1e-11)


@pytest.mark.parametrize(
    ("n", "p", "c", "gates", "loss"),
    [
        (30, 2, 3, "all", "squared"),
        (25, 2, 2, "all", "softmax"),
        (40, 4, 1, 20, "squared"),
        (12, 3, 2, "all", "squared"),
    ],
)
def test_the_optimum_is_certified_where_the_polar_is_exact(n: int, p: int, c: int, gates: Any, loss: str) -> None:
    problem = relu_problem("mlp", normal(n, p), c, gates, loss=loss)
    solution = pn.solve(problem, method="bm", tol=1e-6)
    assert solution.method == "cone_bm"
    assert solution.certificate.holds(1e-6)
    assert solution.certificate.scope == ("all_arrangements" if gates == "all" else "fixed_gates")
    assert_feasible(solution)
    assert_same_objective(solution)


@pytest.mark.parametrize("readout", ["mean", "tokens"])
@pytest.mark.parametrize(("block", "shape"), TOKENS, ids=NAMES[1:])
def test_every_token_block_trains_and_stays_feasible(block: Any, shape: tuple[int, ...], readout: str) -> None:
    problem = relu_problem(block, normal(*shape), 2, gates=4, readout=readout)
    solution = pn.solve(problem, method=ConeBM(descents=3), tol=1e-6, max_steps=2)
    zero = float(problem.loss.value(torch.zeros_like(problem.loss.target)))
    assert solution.certificate.primal < 0.99 * zero
    assert solution.certificate.dual <= solution.certificate.primal
    assert solution.certificate.scope == "fixed_gates"
    assert_feasible(solution)
    assert_same_objective(solution)


def test_convolutions_train_and_stay_feasible() -> None:
    problem = relu_problem(*[BLOCKS[0][0], normal(*BLOCKS[0][1])], 2, gates=6)
    assert isinstance(problem.program.gauge.region, Table)
    solution = pn.solve(problem, method="bm", tol=1e-3, max_steps=6)
    assert solution.certificate.holds(1e-2)
    assert_feasible(solution)
    assert_same_objective(solution)


def test_auto_takes_blocks_without_a_table_of_rows() -> None:
    solution = pn.solve(relu_problem("attention", normal(6, 2, 2), 1, gates=3), max_steps=1)
    assert solution.method == "cone_bm"
    assert_feasible(solution)


def test_masked_tokens() -> None:
    X, mask = normal(8, 4, 2), np.arange(4) < np.array([4, 3, 2, 4, 1, 2, 3, 4])[:, None]
    problem = relu_problem("attention", X, 2, gates=4, mask=mask)
    solution = pn.solve(problem, method=ConeBM(descents=3), tol=1e-6, max_steps=2)
    assert_feasible(solution)
    assert solution.certificate.primal < float(problem.loss.value(torch.zeros_like(problem.loss.target)))


@pytest.mark.parametrize(("block", "shape"), BLOCKS, ids=NAMES)
def test_rows_applied_and_rows_picked_are_the_same(block: Any, shape: tuple[int, ...]) -> None:
    problem = relu_problem(block, normal(*shape), 2, gates=4)
    cones = implicit_cones(problem.on_data, problem.gates)
    u = torch.from_numpy(normal(3, problem.gate_vectors.shape[1], seed=2))
    table = cones.rows.take(torch.arange(cones.rows.shape[0]))
    sides = torch.cat([part for _, part in in_spans(cones.rows, u)], dim=1)
    assert torch.allclose(sides, u @ table.T, atol=1e-12)
    assert torch.allclose(torch.linalg.vector_norm(table, dim=1), torch.ones(len(table), dtype=torch.float64))
    every = torch.arange(len(cones.signs))
    assert bool((cones.slack(cones.inside, every) >= 0).all())
    pulled = cones.pulled_inside(u[:1].expand(len(every), -1), every)
    assert bool((cones.slack(pulled, every) >= 0).all())


def test_a_step_of_steepest_descent_leaves_no_cone() -> None:
    program = relu_problem("mlp", normal(20, 3), 2, gates=5).program
    assert isinstance(program.gauge, ConeNuclear)
    cones = program.gauge.region
    gate = torch.arange(5).repeat_interleave(4)
    left = feasible(cones, torch.from_numpy(normal(20, 3, seed=3)), gate).point
    left = left + 1e-2 * cones.inside[gate] * (torch.arange(20) % 2)[:, None]  # half of them on walls, half inside
    factors = Factors(left, torch.zeros(20, 2, dtype=torch.float64), gate)
    slope = torch.from_numpy(normal(20, 5, seed=4))
    steepest, walls = descent(cones, factors, slope)
    assert float((steepest * slope).sum()) < 0
    assert bool((cones.slack(left + 1e-7 * steepest[:, :3], gate) >= -1e-13).all())
    assert float(torch.einsum("jmp,jp->jm", walls.normals, steepest[:, :3]).abs().max()) < 1e-10


def test_warm_starts_and_random_starts_reach_the_same_value() -> None:
    problem = relu_problem("mlp", normal(30, 2), 2, "all")
    best = pn.solve(problem, method="bm", tol=1e-8)
    again = pn.solve(problem, method="bm", tol=1e-6, start=best)
    wide = pn.solve(problem, method=ConeBM(rank=1, seed=3), tol=1e-6)
    assert again.steps <= 1
    for other in (again, wide):
        assert other.certificate.primal == pytest.approx(best.certificate.primal, rel=2e-6)


def gated_pair(block: Any, X: np.ndarray, c: int, gates: int = 8) -> tuple[Solution, pn.Problem]:
    Y = normal(len(X), c, seed=1)
    gated = pn.formulate(block, X, Y, gates=gates, beta=1.0)
    gated = gated.with_beta(0.1 * gated.beta_max)
    relu = pn.formulate(block, X, Y, "relu", gated.gate_vectors, beta=gated.beta, gate_group=gated.gates.group)
    return pn.solve(gated, tol=1e-6), relu


@pytest.mark.parametrize(
    ("block", "shape", "c"),
    [("mlp", (30, 3), 2), ("mlp", (30, 4), 1), ("attention", (6, 2, 2), 1), (pn.BFNO(groups=2), (6, 2, 4), 2)],
)
def test_a_gated_solution_as_a_relu_network(block: Any, shape: tuple[int, ...], c: int) -> None:
    solution, problem = gated_pair(block, normal(*shape), c)
    same = to_relu(solution, problem, correct=False)
    with torch.no_grad():
        gated, relu = solution.network()(problem.X), same.network()(problem.X)
    assert torch.allclose(gated, relu, atol=1e-8 * float(gated.abs().max()))
    better = to_relu(solution, problem)
    assert better.certificate.primal <= same.certificate.primal
    for one in (same, better):
        assert_feasible(one)
        assert one.certificate.primal >= solution.certificate.dual * (1 - 1e-9)  # the gated program has no cones
        assert one.certificate.dual <= one.certificate.primal
        assert one.lower_bound == one.certificate.dual


def test_a_decomposition_in_thin_cones() -> None:
    """Gates of the plane's narrow sectors: where rounding ends Newton, what it has is feasible and good."""
    solution, problem = gated_pair("mlp", normal(25, 2), 5, gates=50)
    found = to_relu(solution, problem, correct=False)
    assert_feasible(found)
    with torch.no_grad():
        gated, relu = solution.network()(problem.X), found.network()(problem.X)
    assert torch.allclose(gated, relu, atol=1e-8 * float(gated.abs().max()))
    assert found.lower_bound == found.certificate.dual > 0


def test_a_decomposition_is_of_one_problem() -> None:
    solution, problem = gated_pair("mlp", normal(10, 2), 1)
    with pytest.raises(ValueError, match="problem: it has other data or gates"):
        to_relu(solution, relu_problem("mlp", normal(10, 2, seed=5), 1))
    with pytest.raises(ValueError, match="a gated_relu solution and a relu problem are needed"):
        to_relu(solution, solution.problem)
    assert to_relu(solution, problem).method == "decomposition"


@pytest.mark.parametrize(("block", "shape"), BLOCKS, ids=NAMES)
def test_modules_train_in_a_loop(block: Any, shape: tuple[int, ...]) -> None:
    """Any module with activation "relu": its forward is Σ B(σ(Φu), v), its gradient descends."""
    problem = relu_problem(block, normal(*shape), 2, gates=3)
    neurons = 3 if problem.gates.group is None else 6
    p, q = problem.program.operator.p, problem.program.operator.q
    factors = Factors(*(torch.from_numpy(normal(neurons, w, seed=w)) for w in (p, q)), torch.arange(neurons))
    network = problem.network(factors)
    assert network.activation == "relu"
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        value = problem.loss.value(network(problem.X)) + problem.beta * network.penalty()
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    assert values[-1] < 0.9 * values[0]
    X, Y = problem.X, problem.loss.target
    certificate = pn.certify(network, X, Y, loss="squared", beta=problem.beta)  # its gates need not be the problem's
    assert certificate.dual <= certificate.primal
