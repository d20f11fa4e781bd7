"""The variational interior point: right answers, tight certificates, honest ends."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.gauges import LineNorm, NuclearNorm
from provenet.losses import Squared
from provenet.operators import MLPOperator
from provenet.problem import Problem, Program
from provenet.solvers import Limits, Status
from provenet.solvers.interior.blocks import Scaling, to_blocks, to_vector
from provenet.solvers.interior.ipm import IPM
from provenet.solvers.interior.newton import centre_at
from provenet.solvers.interior.rows import DenseRows, KernelRows, prepare
from provenet.solvers.loop import run
from provenet.space import Space


def spiral(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The spiral of BM: three arms of 50 points in the plane, one-hot targets."""
    rng = np.random.default_rng(seed)
    radius = np.linspace(0, 1, 50)
    arms = []
    for arm in range(3):
        angle = np.linspace(4 * arm, 4 * (arm + 1), 50) + 0.2 * rng.normal(size=50)
        arms.append(np.c_[radius * np.sin(angle), radius * np.cos(angle)])
    return np.concatenate(arms), np.repeat(np.eye(3), 50, axis=0)


def random_problem(seed: int, n: int, d: int, c: int, gates: int, share: float, **settings) -> Problem:
    rng = np.random.default_rng(seed)
    problem = pn.formulate("mlp", rng.normal(size=(n, d)), rng.normal(size=(n, c)), gates=gates, seed=seed, **settings)
    return problem.with_beta(share * problem.beta_max)


def best_value(problem: Problem) -> float:
    """The optimum of the normalised program, by CVXPY."""
    cp = pytest.importorskip("cvxpy")
    op, loss = problem.program.operator, problem.program.loss
    X, D = op.X.numpy(), op.pattern.numpy()
    blocks = [cp.Variable((op.p, op.q)) for _ in range(op.n_gates)]
    prediction = sum((D[:, [k]] * X) @ Z for k, Z in enumerate(blocks))
    root = np.sqrt(loss.sample_weight.numpy())[:, None]
    fit = 0.5 * cp.sum_squares(cp.multiply(root @ np.ones((1, op.q)), prediction - loss.target.numpy()))
    penalty = sum(cp.normNuc(Z) for Z in blocks)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    return cp.Problem(cp.Minimize(fit + problem.program.beta * penalty)).solve(solver="CLARABEL", **tight)


SHAPES = {
    "left": {"n": 20, "d": 3, "c": 2, "gates": 8},
    "left, more samples than weights": {"n": 40, "d": 2, "c": 3, "gates": 4},
    "right": {"n": 20, "d": 3, "c": 1, "gates": 10},
    "right, more samples than weights": {"n": 40, "d": 2, "c": 1, "gates": 6},
    "one feature": {"n": 15, "d": 1, "c": 3, "gates": 5},
    "more features than outputs": {"n": 12, "d": 4, "c": 2, "gates": 6},
    "linear": {"n": 15, "d": 4, "c": 3, "gates": 1, "activation": "linear"},
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_reaches_the_optimum_of_cvxpy(shape, weighted):
    weight = np.random.default_rng(5).uniform(0.1, 5, size=shape["n"]) if weighted else None
    problem = random_problem(3, share=0.05, sample_weight=weight, **shape)
    solution = pn.solve(problem, IPM(), tol=1e-9)
    assert solution.status is Status.SOLVED
    assert solution.certificate.primal / problem.units.value == pytest.approx(best_value(problem), rel=1e-7)


@pytest.mark.parametrize("beta", [1e-1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("seed", [0, 4])
def test_the_spiral_to_one_part_in_a_hundred_million(seed, beta):
    X, Y = spiral(seed)
    solution = pn.solve(pn.formulate("mlp", X, Y, gates=100, beta=beta, seed=seed), IPM(), tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.steps <= 20


@pytest.mark.parametrize("share", [0.1, 0.01, 0.001])
def test_one_output(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.maximum(X @ rng.normal(size=(2, 10)), 0) @ rng.normal(size=10) + 0.1 * rng.normal(size=150)
    problem = pn.formulate("mlp", X, y, gates=100)
    solution = pn.solve(problem.with_beta(share * problem.beta_max), IPM(), tol=1e-8)
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.steps <= 20


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("share", [1.0, 1.5, 100.0])
def test_zero_network_from_beta_max_on(share, c):
    solution = pn.solve(random_problem(0, 20, 3, c, 10, share), IPM(), tol=1e-12)
    assert solution.status is Status.SOLVED
    assert solution.factors.n_neurons == 0


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("share", [1 - 1e-9, 0.999, 0.9])
def test_gap_closes_just_below_beta_max(share, c):
    solution = pn.solve(random_problem(0, 20, 3, c, 10, share), IPM(), tol=1e-10)
    assert solution.status is Status.SOLVED


def hostile(c: int) -> dict[str, dict]:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, c))
    return {
        "one gate": {"X": X, "Y": Y, "gates": 1},
        "one sample": {"X": X[:1], "Y": Y[:1]},
        "constant targets": {"X": X, "Y": np.ones_like(Y)},
        "zero targets": {"X": X, "Y": np.zeros_like(Y)},
        "zero column": {"X": X * [1, 0, 1], "Y": Y},
        "all zero": {"X": 0 * X, "Y": Y},
        "rank deficient": {"X": X @ np.outer([1, 2, 3], [1, 1, 1]), "Y": Y},
        "rows repeated, targets not": {"X": np.r_[X, X], "Y": np.r_[Y, Y + 0.1]},
        "weights of all sizes": {"X": X, "Y": Y, "sample_weight": 10 ** rng.uniform(-6, 6, size=30)},
        "a sample far away": {"X": np.r_[X[1:], 1e6 * X[:1]], "Y": Y},
        "a target far away": {"X": X, "Y": np.r_[Y[1:], 1e6 * Y[:1]]},
        "columns of all sizes": {"X": X * [1e-4, 1, 1e4], "Y": Y},
        "more gates than samples": {"X": X[:5], "Y": Y[:5], "gates": 40},
    }


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("name", hostile(1))
def test_hostile_data(name, c):
    data = hostile(c)[name]
    problem = pn.formulate("mlp", **({"gates": 15} | data))
    for share in (0.3, 1e-3):
        solution = pn.solve(problem.with_beta(share * (problem.beta_max or 1.0)), IPM(), tol=1e-8)
        assert solution.status is Status.SOLVED
        assert solution.certificate.gap >= -1e-12 * abs(solution.certificate.primal)


@pytest.mark.parametrize("c", [1, 3])
def test_gap_is_never_negative_along_the_way(c):
    problem = random_problem(7, 25, 3, c, 12, 1e-3)
    solution = pn.solve(problem, IPM(), tol=1e-12, max_steps=15)
    assert min(record.relative_gap for record in solution.history) > -1e-14


@pytest.mark.parametrize("share", [1e-8, 1e-11, 1e-30, 1e-300])
@pytest.mark.parametrize("c", [1, 3])
def test_tiny_beta_ends_honestly(c, share):
    solution = pn.solve(random_problem(2, 40, 3, c, 30, share), IPM(), tol=1e-8)
    assert solution.status in (Status.SOLVED, Status.SOLVED_INACCURATE, Status.STALLED)
    assert np.isfinite(solution.certificate.relative_gap)
    assert (solution.status is Status.SOLVED) == (solution.certificate.relative_gap <= 1e-8)
    assert torch.isfinite(solution.factors.left).all()


def test_a_weight_of_two_is_a_sample_repeated():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    weight = np.r_[np.full(5, 2.0), np.ones(15)]
    weighted = pn.formulate("mlp", X, Y, gates=10, beta=0.1, sample_weight=weight)
    repeated = pn.formulate("mlp", np.r_[X[:5], X], np.r_[Y[:5], Y], gates=10, beta=0.1)
    values = [pn.solve(problem, IPM(), tol=1e-10).certificate.primal for problem in (weighted, repeated)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("c", [1, 3])
def test_warm_start_saves_steps_and_is_left_untouched(c):
    problem = random_problem(4, 40, 3, c, 20, 0.03)
    cold = pn.solve(problem, IPM(), tol=1e-9)
    rough = pn.solve(problem, IPM(), tol=1e-4)
    before = rough.factors.left.clone()
    warm = pn.solve(problem, IPM(), tol=1e-9, start=rough)
    assert warm.status is Status.SOLVED
    assert warm.steps < cold.steps
    assert torch.equal(rough.factors.left, before)
    assert pn.solve(problem, IPM(), tol=1e-9, start=cold).steps == 0


def test_a_useless_start_does_no_harm():
    problem = random_problem(4, 40, 3, 2, 20, 0.03)
    start = pn.solve(problem, IPM(), tol=1e-6).factors.scaled(1e6)
    assert pn.solve(problem, IPM(), tol=1e-9, start=start).status is Status.SOLVED


@pytest.mark.parametrize("c", [1, 2])
def test_finishes_on_a_subset_of_gates(c):
    program = random_problem(6, 30, 2, c, 15, 0.02).program
    subset = program.restrict(torch.tensor([0, 3, 7, 11]))
    done = run(IPM(), subset, Limits(1e-10))
    assert done.status is Status.SOLVED
    assert int(done.factors.gate.max()) < 4


def test_refuses_what_it_cannot_do():
    X, labels = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 3
    softmax = pn.formulate("mlp", X, labels, gates=5, loss="softmax")
    with pytest.raises(ValueError, match="squared loss"):
        pn.solve(softmax, IPM())
    many = pn.formulate("mlp", X, np.eye(3)[labels], gates=5)
    with pytest.raises(ValueError, match="30 unknowns, more than max_unknowns=29"):
        pn.solve(many, IPM(max_unknowns=29))
    program = many.program
    lines = Program(program.operator, program.loss, LineNorm(1, 2), program.beta)
    assert "nuclear norm, not LineNorm" in (IPM().refuses(lines) or "")
    assert "float64" in (IPM().refuses(program.to(Space(dtype=torch.float32))) or "")
    assert IPM(max_unknowns=30).refuses(program) is None


def test_gated_and_dense_rows_are_the_same_map():
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(6, 3, dtype=torch.float64, generator=rng)
    pattern = (torch.randn(6, 4, generator=rng) > 0).double()
    target = torch.randn(6, 1, dtype=torch.float64, generator=rng)
    weight = torch.rand(6, dtype=torch.float64, generator=rng) + 0.5
    program = Program(MLPOperator(X, pattern, 1), Squared(target, weight), NuclearNorm(), 0.1)
    gated = prepare(program).rows
    columns = (pattern.T[:, None, :] * X.T * weight.sqrt()).contiguous()
    dense = DenseRows(columns, 1)
    assert isinstance(gated, KernelRows)
    G = torch.rand(4, 1, 1, dtype=torch.float64, generator=rng) + 0.5
    stack = torch.randn(4, 3, 1, dtype=torch.float64, generator=rng)
    for one, other in ((gated.scaled(G), dense.scaled(G)), (gated, dense)):
        torch.testing.assert_close(one.forward(stack), other.forward(stack))
        torch.testing.assert_close(one.adjoint(target), other.adjoint(target))
        torch.testing.assert_close(one.kernel(G[:, 0]), other.kernel(G[:, 0]))
        torch.testing.assert_close(one.slopes(stack), other.slopes(stack))


@pytest.mark.parametrize("m", [1, 3])
def test_scaling_makes_both_blocks_one_diagonal(m):
    factor = torch.randn(2, 5, m, m, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    T, R = factor @ factor.mT + 0.1 * torch.eye(m, dtype=torch.float64)
    scaling = Scaling.between(T, R)
    Lam = torch.diag_embed(scaling.lam)
    torch.testing.assert_close(scaling.G @ Lam @ scaling.G.mT, T)
    torch.testing.assert_close(scaling.dual @ Lam @ scaling.dual.mT, R)
    torch.testing.assert_close(to_blocks(to_vector(T), m), T)
    torch.testing.assert_close(to_vector(T) @ to_vector(R), (T * R).sum())


@pytest.mark.parametrize("c", [1, 2])
def test_slopes_are_the_derivative_of_the_residual(c):
    """W = K⁻¹Y: dW = −K⁻¹ Σ_k X̃_k dT_k a_k, one output column at a time."""
    fit = prepare(random_problem(0, 10, 3, c, 4, 0.1).program)
    m = 1 if c == 1 else 3
    eye = torch.eye(m, dtype=torch.float64).expand(4, m, m)
    centre = centre_at(fit, Scaling.between(eye, eye))
    direction = torch.randn(4 * m * (m + 1) // 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    slope = torch.einsum("qun,u->nq", centre.rows.slopes(centre.a), direction)
    step = 1e-6
    after = centre_at(fit, Scaling.between(eye + step * to_blocks(direction, m), eye))
    before = centre_at(fit, Scaling.between(eye - step * to_blocks(direction, m), eye))
    torch.testing.assert_close(
        (after.W - before.W) / (2 * step), -torch.cholesky_solve(slope, centre.L), rtol=1e-6, atol=1e-8
    )
