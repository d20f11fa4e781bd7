"""The Burer–Monteiro method: optima, proofs, gd and pgd semantics, honest endings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.data import demo
from provenet.problem import Program
from provenet.solvers.loop import Limits, run
from provenet.solvers.neurons.amplitudes import best_amplitudes
from provenet.solvers.neurons.bm import BM
from provenet.solvers.neurons.descent import Plateau
from provenet.solvers.neurons.first_order import FirstOrderBM
from provenet.solvers.neurons.hessian import DenseModel, ProductModel
from provenet.solvers.neurons.newton import Damping, NewtonSettings, newton_step
from provenet.solvers.neurons.place import compress, gaussian, gradient, place
from provenet.solvers.solve import solve_quietly
from provenet.solvers.status import Status
from provenet.variable import ByGate, Factors

LOSSES = ("squared", "softmax", "logistic", "huber")


def make_program(
    loss: str = "squared", fraction: float = 0.05, n: int = 25, d: int = 3, c: int = 3, gates: int = 6
) -> Program:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, d))
    Y = rng.normal(size=(n, c)) if loss in ("squared", "huber") else np.eye(c)[rng.integers(c, size=n)]
    problem = pn.formulate("mlp", X, Y, gates=gates, loss=loss)
    return problem.with_beta(fraction * problem.beta_max).program


def spiral(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = [], []
    for j in range(3):
        radius = np.linspace(0, 1, n // 3)
        angle = np.linspace(4 * j, 4 * (j + 1), n // 3) + 0.2 * rng.normal(size=n // 3)
        X.append(np.c_[radius * np.sin(angle), radius * np.cos(angle)])
        y += [j] * (n // 3)
    return np.concatenate(X), np.eye(3)[y]


def cvxpy_optimum(program: Program, loss: str) -> float:
    cp = pytest.importorskip("cvxpy")
    op = program.operator
    X, D, Y = op.X.numpy(), op.pattern.numpy(), program.loss.target.numpy()
    Z = [cp.Variable((op.p, op.q)) for _ in range(op.n_gates)]
    prediction = sum(cp.multiply(D[:, k : k + 1], X @ Z[k]) for k in range(op.n_gates))
    if loss == "squared":
        fit = 0.5 * cp.sum_squares(prediction - Y)
    else:
        fit = cp.sum(cp.log_sum_exp(prediction, axis=1)) - cp.sum(cp.multiply(Y, prediction))
    program_value = cp.Problem(cp.Minimize(fit + program.beta * sum(cp.normNuc(z) for z in Z)))
    return float(program_value.solve(solver="CLARABEL"))


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_reaches_cvxpys_optimum_from_zero(loss: str) -> None:
    program = make_program(loss)
    done = run(BM(), program, Limits(1e-8))
    assert done.status is Status.SOLVED
    assert float(program.objective_factors(done.factors)) == pytest.approx(cvxpy_optimum(program, loss), rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fraction", [0.5, 0.05])
def test_every_loss_ends_with_a_proof(loss: str, fraction: float) -> None:
    program = make_program(loss, fraction)
    done = run(BM(), program, Limits(1e-8))
    assert done.status is Status.SOLVED
    assert -1e-12 <= done.history[-1].relative_gap <= 1e-8


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_conjugate_gradients_end_with_a_proof_too(loss: str) -> None:
    program = make_program(loss, 0.1)
    done = run(BM(newton=NewtonSettings(dense=0)), program, Limits(1e-6))
    assert done.status is Status.SOLVED


def test_one_output_and_one_gate() -> None:
    done = run(BM(), make_program(c=1), Limits(1e-8))
    assert done.status is Status.SOLVED
    rng = np.random.default_rng(3)
    linear = pn.formulate("mlp", rng.normal(size=(20, 4)), rng.normal(size=(20, 3)), activation="linear", beta=0.5)
    assert run(BM(), linear.program, Limits(1e-8)).status is Status.SOLVED


@pytest.mark.parametrize("beta", [1e-1, 1e-2])
def test_spiral_is_certified_from_zero(beta: float) -> None:
    problem = pn.formulate("mlp", *spiral(), gates=40, beta=beta)
    solution = pn.solve(problem, BM(), tol=1e-8)
    assert solution.certificate.holds(1e-8)


def test_zero_is_the_solution_from_beta_max_on() -> None:
    program = make_program(fraction=1.0)
    done = run(BM(), program, Limits(1e-10))
    assert done.status is Status.SOLVED
    assert done.factors.n_neurons == 0
    assert run(FirstOrderBM(optimizer="pgd", epochs=50), program, Limits(1e-8)).status is Status.SOLVED


@pytest.mark.parametrize("loss", LOSSES)
def test_polishes_a_good_point_in_few_steps(loss: str) -> None:
    program = make_program(loss)
    exact = run(BM(), program, Limits(1e-10))
    generator = torch.Generator().manual_seed(0)
    noise = 1 + 1e-2 * torch.randn(exact.factors.left.shape, generator=generator, dtype=torch.float64)
    rough = Factors(exact.factors.left * noise, exact.factors.right, exact.factors.gate)
    done = run(BM(), program, Limits(1e-8, max_steps=15), start=rough)
    assert done.history[0].relative_gap > 1e-4
    assert done.status is Status.SOLVED


def test_the_start_is_left_untouched() -> None:
    program = make_program()
    start = gaussian(program, 2, 0.3, seed=1)
    left, right, gate = start.left.clone(), start.right.clone(), start.gate.clone()
    for method in (BM(), FirstOrderBM(optimizer="gd", epochs=5), FirstOrderBM(optimizer="pgd", epochs=5)):
        run(method, program, Limits(1e-12, max_steps=10), start=start)
        assert torch.equal(start.left, left)
        assert torch.equal(start.right, right)
        assert torch.equal(start.gate, gate)


def test_a_starved_run_says_so() -> None:
    program = make_program()
    done = run(BM(), program, Limits(1e-10, max_steps=3))
    assert done.status is Status.MAX_STEPS
    assert min(record.relative_gap for record in done.history) > 1e-10
    assert run(FirstOrderBM(optimizer="gd", epochs=20, finish=None), program, Limits(1e-10)).status is Status.STALLED


def test_a_diverging_descent_says_so() -> None:
    program = make_program()
    done = run(FirstOrderBM(optimizer="gd", rank=3, spread=3.0, learning_rate=1e3, mean=False), program, Limits(1e-6))
    assert done.status is Status.NONFINITE


def test_newton_alone_stops_at_a_saddle_and_escape_leaves_it() -> None:
    program = make_program()
    one_neuron = Factors(torch.full((1, 3), 0.1).double(), torch.full((1, 3), 0.1).double(), torch.tensor([0]))
    without = run(BM(escape=False), program, Limits(1e-8), start=one_neuron)
    assert without.status is Status.STALLED
    assert run(BM(), program, Limits(1e-8), start=one_neuron).status is Status.SOLVED


def test_gd_is_torchs_sgd_with_momentum_and_plateau() -> None:
    program = make_program(fraction=0.5)
    start = gaussian(program, 2, 0.3, seed=2)
    epochs = 600
    state = (method := FirstOrderBM(optimizer="gd", learning_rate=2.0, finish=None, epochs=epochs)).init(program, start)
    left, right = start.left.clone().requires_grad_(), start.right.clone().requires_grad_()
    optimizer = torch.optim.SGD([left, right], lr=2.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.9)
    for epoch in range(epochs):
        optimizer.zero_grad()
        factors = Factors(left, right, start.gate)
        hidden = (program.operator.X @ left.T) * program.operator.pattern[:, start.gate]
        value = program.loss.value(hidden @ right) + program.beta * factors.penalty()
        mean = value / program.loss.target.numel()
        mean.backward()
        optimizer.step()
        scheduler.step(mean.item())
        state = method.step(program, state)
        if epoch == 0:
            torch.testing.assert_close(state.place.factors.left, left.detach(), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(state.place.factors.left, left.detach(), rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(state.place.factors.right, right.detach(), rtol=1e-8, atol=1e-10)
    assert state.descent.schedule.rate == pytest.approx(optimizer.param_groups[0]["lr"])
    assert state.descent.schedule.rate < 2.0  # the plateau was met


def test_plateau_is_torchs() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.linspace(10, 1, 30), 1 + 1e-5 * rng.random(200)])
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.9)
    schedule = Plateau(1.0)
    for value in values:
        scheduler.step(float(value))
        schedule = schedule.after(float(value))
        assert schedule.rate == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-14)
    assert schedule.rate < 0.5


def test_pgd_descends_every_step_and_is_the_formula() -> None:
    program = make_program()
    method = FirstOrderBM(optimizer="pgd", rank=2, spread=0.5)
    state = method.init(program, None)
    before = state.place
    state = method.step(program, state)
    slope = gradient(program, before)
    damping = (float(slope.norm()) / state.descent.lipschitz) ** 2 + state.descent.rate * program.beta
    U, V = before.factors.left[:2], before.factors.right[:2]
    expected = U - state.descent.rate * torch.linalg.inv(V @ V.T + damping * torch.eye(2)) @ slope[:2, : U.shape[1]]
    torch.testing.assert_close(state.place.factors.left[:2], expected, rtol=1e-8, atol=1e-11)
    values = [before.value, state.place.value]
    for _ in range(30):
        state = method.step(program, state)
        values.append(state.place.value)
    assert all(later < earlier for earlier, later in itertools.pairwise(values))


def test_pgd_beats_plain_gradient_descent_on_flat_factors() -> None:
    """Over-parametrised and badly scaled: what the preconditioner is for."""
    program = make_program()
    start = gaussian(program, 3, 0.05, seed=0)
    best = run(BM(), program, Limits(1e-9)).history[-1].primal
    pgd = run(FirstOrderBM(optimizer="pgd", epochs=100, finish=None), program, Limits(1e-12), start=start)
    gd = run(FirstOrderBM(optimizer="gd", epochs=100, finish=None, momentum=0.0), program, Limits(1e-12), start=start)
    assert pgd.history[-1].primal - best < gd.history[-1].primal - best


def test_pgd_is_not_held_back_by_gates_that_empty() -> None:
    """Most of 20 gates are empty at the optimum: VᵀV vanishes there, and must not shorten every other gate's steps."""
    X, label = demo.spiral(45)
    problem = pn.formulate("mlp", X, np.eye(3)[label], gates=20, beta=0.1, fit_intercept=False)
    best = pn.solve(problem, tol=1e-8).certificate.primal
    ends = {
        name: solve_quietly(problem, FirstOrderBM(name, rank=2, epochs=400, finish=None), Limits(1e-12, 400)).history
        for name in ("gd", "pgd")
    }
    excess = {name: history[-1].primal / best - 1 for name, history in ends.items()}
    assert excess["pgd"] < min(excess["gd"], 2e-3)


@pytest.mark.parametrize("optimizer", ["gd", "pgd"])
def test_first_order_then_escape_ends_with_a_proof(optimizer: str) -> None:
    done = run(FirstOrderBM(optimizer=optimizer, rank=1, epochs=100), make_program(), Limits(1e-8))
    assert done.status is Status.SOLVED
    assert done.steps > 100


@pytest.mark.parametrize("loss", LOSSES)
def test_the_hessian_is_the_derivative_of_the_gradient(loss: str) -> None:
    program = make_program(loss)
    at = place(program, gaussian(program, 1, 0.5, seed=0))
    direction = torch.randn(at.factors.n_neurons, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    h = 1e-6

    def slope(t: float) -> torch.Tensor:
        moved = Factors(
            at.factors.left + t * direction[:, :3], at.factors.right + t * direction[:, 3:], at.factors.gate
        )
        return gradient(program, place(program, moved))

    expected = (slope(h) - slope(-h)) / (2 * h)
    dense, products = DenseModel(program, at), ProductModel(program, at, 200)
    torch.testing.assert_close(dense.product(direction, coupled=True), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(products.product(direction, coupled=True), expected, rtol=1e-5, atol=1e-5)
    for coupled in (True, False):
        torch.testing.assert_close(dense.product(direction, coupled), products.product(direction, coupled))


def test_a_dense_solve_inverts_the_product() -> None:
    program = make_program()
    at = place(program, gaussian(program, 1, 0.5, seed=0))
    model, slope = DenseModel(program, at), gradient(program, at)
    step = model.solve(slope, 0.1, coupled=False)
    assert step is not None
    torch.testing.assert_close(model.product(step, coupled=False) + 0.1 * step, -slope, rtol=1e-8, atol=1e-10)
    empty_handed = place(program, at.factors.scaled(1e-3))  # close to zero the coupling rules: indefinite
    assert DenseModel(program, empty_handed).solve(slope, 0.0, coupled=True) is None


def test_compress_keeps_the_map_and_never_pays_more() -> None:
    program = make_program()
    wide = gaussian(program, 7, 1.0, seed=0)
    slim = compress(wide)
    torch.testing.assert_close(slim.stack(6), wide.stack(6))
    assert float(slim.penalty()) == pytest.approx(float(program.gauge.value(wide.stack(6))), rel=1e-12)
    assert int(torch.bincount(slim.gate).max()) <= 3
    assert compress(Factors.empty(3, 3)).n_neurons == 0


def test_groups_gather_and_scatter() -> None:
    gate = torch.tensor([4, 1, 4, 9, 4])
    rows = torch.arange(10.0).view(5, 2)
    groups = ByGate(gate)
    blocks = groups.gather(rows)
    assert groups.names.tolist() == [1, 4, 9]
    assert blocks.shape == (3, 3, 2)
    assert torch.equal(blocks[1], rows[[0, 2, 4]])
    assert torch.equal(groups.scatter(blocks), rows)


def test_best_amplitudes_drops_what_is_not_needed() -> None:
    program = make_program()
    exact = run(BM(), program, Limits(1e-10)).factors
    bad = Factors(torch.ones(1, 3).double(), torch.ones(1, 3).double(), torch.tensor([0]))
    at = place(program, Factors.join(exact, bad))
    there = best_amplitudes(program, at)
    assert there.value < at.value
    assert there.value == pytest.approx(float(program.objective_factors(exact)), rel=1e-6)


@pytest.mark.parametrize("close", [False, True])
def test_a_step_is_judged_by_where_its_best_amplitudes_lead(close: bool) -> None:
    """Before, neurons that lift a step spoil it: its damping would stay large, and a run would creep."""
    program = make_program()
    at = best_amplitudes(program, place(program, gaussian(program, 2, 0.3, seed=0)))
    move = newton_step(program, at, Damping(close=close), np.inf, NewtonSettings())
    assert move.place.value < at.value
    assert best_amplitudes(program, move.place).value == pytest.approx(move.place.value, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "named"), [({"optimizer": "adam"}, "optimizer"), ({"rank": 0}, "rank"), ({"spread": 0.0}, "spread")]
)
def test_wrong_settings_are_named(settings: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        FirstOrderBM(**settings)
