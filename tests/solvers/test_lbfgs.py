"""Quasi-Newton on neurons: what is iterated in float32 is judged in float64.  The optimum of every block is in the
contract of solvers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches, deadline
from provenet.certificates import duality_gap
from provenet.operators.blocks.mlp import MLPOperator
from provenet.polar import bounds
from provenet.reductions import STANDARD, reduced
from provenet.solvers.loop import Limits, run
from provenet.solvers.neurons.lbfgs import amplitudes as sizes_of
from provenet.solvers.neurons.lbfgs import method
from provenet.solvers.neurons.lbfgs.amplitudes import amplitudes
from provenet.solvers.neurons.lbfgs.coordinates import Coordinates, spot
from provenet.solvers.neurons.lbfgs.method import LBFGS
from provenet.solvers.neurons.lbfgs.pairs import Pairs
from provenet.solvers.neurons.lbfgs.search import wolfe_step
from provenet.solvers.offers import Task
from provenet.solvers.status import Status
from provenet.testing.bank import make_case
from provenet.variable import Factors


def posed(n: int = 120, d: int = 10, outputs: int = 4, **more: Any) -> pn.Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.geomspace(1, 0.05, d)
    labels = (X @ rng.standard_normal((d, outputs))).argmax(1)
    problem = pn.formulate("mlp", X, labels, loss="softmax", **({"gates": 12} | more))
    return problem.with_beta(0.02 * problem.beta_max)


@pytest.mark.parametrize("seed", range(24))
def test_what_it_proves_verify_proves_again(seed: int) -> None:
    """Random programs, stopped where float32 has the say."""
    rng = np.random.default_rng(seed)
    case = make_case(
        ("squared", "softmax", "logistic", "huber")[seed % 4],
        n=int(rng.integers(5, 40)),
        d=int(rng.integers(1, 8)),
        outputs=int(rng.integers(1, 4)),
        gates=int(rng.integers(1, 12)),
        ratio=float(10 ** rng.uniform(-2, -0.2)),
        weighted=bool(seed % 3 == 0),
        seed=seed,
    )
    solution = pn.solve(case.problem, LBFGS(), tol=1e-2)
    found = solution.certificate
    assert found.holds(1e-2)
    verdict = case.verify(solution.network(), found.theta)
    assert abs(verdict.gap - found.gap) <= 1e-9 * abs(found.primal)


def test_iterates_are_float32_and_points_float64() -> None:
    program = posed().program
    method = LBFGS()
    state = method.look(program, method.init(program, None), at_zero(program))
    for _ in range(5):
        state = method.step(program, state)
    assert state.at.factors.left.dtype == state.pairs.blocks[-1].pairs.dtype == torch.float32
    point = method.point(program, state)
    assert point.prediction.dtype == torch.float64
    torch.testing.assert_close(
        point.prediction, program.operator.forward_factors(point.factors()), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(point.prediction, state.at.prediction, rtol=1e-3, atol=1e-4)


def at_zero(program: Any) -> Any:
    return duality_gap(program, torch.zeros_like(program.loss.target), 0.0)


def test_it_goes_on_in_float64_where_digits_are_asked_for() -> None:
    solution = pn.solve(posed(), LBFGS(), tol=1e-8)
    assert solution.status is Status.SOLVED


def test_principal_axes_change_no_answer() -> None:
    program = posed().program
    generator = torch.Generator().manual_seed(0)
    factors = Factors(
        torch.randn(5, program.operator.p, generator=generator, dtype=torch.float64),
        torch.randn(5, 4, generator=generator, dtype=torch.float64),
        torch.arange(5),
    )
    here = Coordinates.of(program, torch.float64)
    assert here.basis is not None
    there = spot(program, here, here.enter(factors))
    assert there.value == pytest.approx(float(program.objective_factors(factors)), rel=1e-12)
    torch.testing.assert_close(here.leave(there.factors).left, factors.left)


def test_remembered_steps_are_the_hessian_of_a_quadratic() -> None:
    torch.manual_seed(0)
    root = torch.randn(6, 6, dtype=torch.float64)
    hessian = root @ root.T + torch.eye(6, dtype=torch.float64)
    pairs = Pairs(6)
    for _ in range(6):  # conjugate steps by exact line search are what the memory is exact for
        step = torch.randn(1, 6, dtype=torch.float64)
        for block in pairs.blocks:
            for s, y in zip(block.steps, block.changes, strict=True):
                step -= s * float((step.flatten() @ y) / (s @ y))
        pairs = pairs.after(step, step @ hessian)
    slope = torch.randn(1, 6, dtype=torch.float64)
    wanted = -torch.linalg.solve(hessian, slope.T).T
    torch.testing.assert_close(pairs.direction(slope, torch.ones_like(slope)), wanted)


def test_pairs_follow_the_neurons() -> None:
    step, change = torch.tensor([[1.0], [2.0], [0.5]]), torch.tensor([[1.0], [1.0], [-1.0]])
    pairs = Pairs(4).after(step, change)
    carried = pairs.carried(1, torch.tensor([1]), 2, 80)
    assert carried.blocks[0].steps.tolist() == [[2.0, 0.0, 0.0]]
    assert carried.corner.tolist() == [[2.0]]
    assert len(pairs.carried(1, torch.tensor([2]), 0, 80)) == 0  # what is left of it shows no curvature
    assert pairs.after(step, -change) is pairs


def test_fewer_pairs_are_the_last_ones() -> None:
    """Also where that is less than a block; and the states before keep theirs."""
    draw = torch.Generator().manual_seed(0)
    pairs = Pairs(80)
    for _ in range(40):
        step = torch.randn(3, 7, generator=draw)
        pairs = pairs.after(step, 2 * step)
    last = torch.cat([block.steps for block in pairs.blocks])
    for most in (39, 20, 10, 5, 1):
        fewer = pairs.to(torch.float64, most)
        kept = torch.cat([block.steps for block in fewer.blocks])
        assert most // 2 <= len(fewer) <= most
        torch.testing.assert_close(kept, last[-len(fewer) :].to(torch.float64))
        for _ in range(3 * most):
            step = torch.randn(3, 7, generator=draw, dtype=torch.float64)
            fewer = fewer.after(step, 2 * step)
            assert most // 2 <= len(fewer) <= most
    assert len(pairs) == 40
    first, second = (
        pairs.after(step.float(), change * step.float()) for change in (1, 3)
    )  # one memory, two that go on
    assert float(second.corner[-1, -1]) == pytest.approx(3 * float(first.corner[-1, -1]))
    assert first.blocks[-1].changes[-1].tolist() == step.float().flatten().tolist()


def test_a_pair_of_little_curvature_keeps_what_was_found_of_it() -> None:
    """Products of float32 vectors hang on their order: what is accepted as positive stays so."""
    draw = torch.Generator().manual_seed(0)
    pairs = Pairs(80)
    for _ in range(60):
        step, noise = torch.randn(2, 20_000, generator=draw)
        change = noise - step * float(step.double() @ noise.double() / step.double().square().sum())
        pairs = pairs.after(step[None], change[None])
    assert len(pairs) > 5
    assert bool((pairs.corner.diagonal() > 0).all())
    assert bool((pairs.to(torch.float64, 80).corner.diagonal() > 0).all())


def test_sizes_are_guided_by_one_hessian_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is most of the work; more steps by the same one lead next to the optimum of these sizes."""
    program = posed(n=600).program
    here = Coordinates.of(program, torch.float64)
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(9, size, generator=generator, dtype=torch.float64) for size in (program.operator.p, 4))
    directions = Factors(left / left.norm(dim=1)[:, None], right / right.norm(dim=1)[:, None], torch.arange(9))
    calls, real = [], sizes_of._hessian
    monkeypatch.setattr(sizes_of, "_hessian", lambda *given: (calls.append(1), real(*given))[1])
    sizes = amplitudes(program, here, directions, torch.zeros(9, dtype=torch.float64))
    assert len(calls) == 1

    def value(sizes: torch.Tensor) -> float:
        neurons = here.leave(scaled(directions, sizes))
        return float(program.loss.value(program.operator.forward_factors(neurons))) + program.beta * float(sizes.sum())

    again = amplitudes(program, here, directions, sizes)  # by the Hessian there
    assert value(sizes) == pytest.approx(value(again), rel=1e-3)


def test_sizes_are_best_for_their_directions_whatever_samples_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    program = posed(n=600).program
    here = Coordinates.of(program, torch.float64)
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(9, size, generator=generator, dtype=torch.float64) for size in (program.operator.p, 4))
    directions = Factors(left / left.norm(dim=1)[:, None], right / right.norm(dim=1)[:, None], torch.arange(9))
    start = torch.zeros(9, dtype=torch.float64)
    exact = amplitudes(program, here, directions, start)
    monkeypatch.setattr(batches, "BATCH", 9 * 4 * 4 * 160)
    guided = amplitudes(program, here, directions, start)
    objective = [
        float(program.loss.value(program.operator.forward_factors(here.leave(scaled(directions, sizes)))))
        + program.beta * float(sizes.sum())
        for sizes in (start, exact, guided)
    ]
    assert exact.min() >= 0
    assert (exact == 0).any()
    assert objective[1] < objective[0]
    assert objective[2] == pytest.approx(objective[1], rel=1e-3)


def test_sizes_ask_the_data_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden values of given first layers are kept; where they cannot be, the answer is the same."""
    program = posed(n=300).program
    here = Coordinates.of(program, torch.float64)
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(9, size, generator=generator, dtype=torch.float64) for size in (program.operator.p, 4))
    gate = torch.tensor([0, 0, 0, 2, 2, 5, 7, 7, 11])
    directions = Factors(left / left.norm(dim=1)[:, None], right / right.norm(dim=1)[:, None], gate)
    asked = []
    inner = MLPOperator.both_ways
    monkeypatch.setattr(MLPOperator, "both_ways", lambda op, factors: asked.append(1) or inner(op, factors))
    start = torch.full((9,), 0.1, dtype=torch.float64)
    once = amplitudes(program, here.opened(gate), directions, start)
    assert not asked
    monkeypatch.setattr(MLPOperator, "narrows", False)
    again = amplitudes(program, here.opened(gate), directions, start)
    assert asked
    torch.testing.assert_close(once, again, rtol=1e-6, atol=1e-9)


def scaled(directions: Factors, sizes: torch.Tensor) -> Factors:
    return Factors(directions.left, directions.right * sizes[:, None], directions.gate)


def test_a_search_ends_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    program = posed().program
    method = LBFGS()
    state = method.look(program, method.init(program, None), at_zero(program))
    seen = []
    inner = MLPOperator.both_ways
    monkeypatch.setattr(MLPOperator, "both_ways", lambda op, factors: seen.append(1) or inner(op, factors))
    with deadline.within(0.0):
        wolfe_step(program, state.here, state.at, -1e3 * state.at.gradient)  # far too long: many trials otherwise
    assert len(seen) == 1


def test_ctrl_c_within_a_step_keeps_the_best_point(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed()
    count = [0]
    inner = MLPOperator.both_ways

    def interrupted(op: MLPOperator, factors: Factors) -> Any:
        count[0] += 1
        if count[0] == 60:
            raise KeyboardInterrupt
        return inner(op, factors)

    monkeypatch.setattr(MLPOperator, "both_ways", interrupted)
    done = run(LBFGS(), reduced(problem.program, STANDARD)[0], Limits(1e-9))
    assert done.status is Status.INTERRUPTED
    assert done.history[-1].primal < 0.5 * done.history[0].primal
    assert done.factors.n_neurons > 0


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_stacks_too_large_to_be_formed(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed(activation=activation)
    dense = pn.solve(problem, tol=1e-6).certificate.primal
    monkeypatch.setattr(bounds, "LARGE_BYTES", 0)
    solution = pn.solve(problem, LBFGS(), tol=1e-4)
    assert solution.certificate.holds(1e-4)
    assert solution.certificate.primal == pytest.approx(dense, rel=1e-4)


def test_looks_are_rare_where_gates_are_many() -> None:
    few, many = (posed(n=400, d=30, gates=gates).program for gates in (20, 2000))
    begun = LBFGS()._begun(few, Coordinates.of(few, torch.float32), few.nobody)
    assert LBFGS().pause(few, begun, 1000) == LBFGS.check_every < LBFGS().pause(many, begun, 1000)


def test_offers_grow_with_samples_alone() -> None:
    work = [LBFGS().offer(Task(posed(n=n, d=60).program, 1e-2)).step for n in (2_000, 8_000)]
    assert math.isclose(work[1] - work[0], 6_000 * (work[1] / 8_000), rel_tol=0.8)


def test_masks_are_kept_for_the_gates_they_are_of() -> None:
    """An operator that has seen neurons behind other gates, as many of them, does what a fresh one does."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    pattern = torch.rand(40, 6, generator=generator) < 0.5
    residual = torch.randn(40, 2, generator=generator, dtype=torch.float64)
    left, right = (torch.randn(4, size, generator=generator, dtype=torch.float64) for size in (5, 2))
    used = MLPOperator(X, pattern, 2)
    for gate in ([0, 1, 2, 3], [0, 1, 2, 5], [0, 1, 2, 5]):
        factors = Factors(left, right, torch.tensor(gate))
        fresh = MLPOperator(X, pattern, 2)
        prediction, back = used.both_ways(factors)
        assert torch.allclose(prediction, fresh.forward_factors(factors))
        for ours, theirs in zip(back(residual), fresh.adjoint_factors(residual, factors), strict=True):
            assert torch.allclose(ours, theirs)


@pytest.mark.parametrize("share", [0.98, 0.99, 0.999])
def test_a_start_of_which_nobody_stays(share: float) -> None:
    """Next to β_max sizes of neurons that are far too large fall to zero, and none would grow."""
    rng = np.random.default_rng(0)
    problem = pn.formulate("mlp", rng.standard_normal((300, 6)), rng.standard_normal((300, 1)), gates=10, beta=1.0)
    start = pn.solve(problem, "lbfgs", tol=1e-6).factors.scaled(10.0)
    problem = problem.with_beta(share * problem.beta_max)
    assert pn.solve(problem, "lbfgs", tol=1e-6, start=start).certificate.holds(1e-6)


def test_dust_goes_where_it_is_little_of_the_gap() -> None:
    sizes = torch.tensor([2.0, 1e-3, 0.0, 1.0, 5e-4], dtype=torch.float64)
    everyone = [True, True, False, True, True]
    assert [kept.tolist() for kept in method._needed(sizes, 1.0)] == [[True, False, False, True, False], everyone]
    assert [kept.tolist() for kept in method._needed(sizes, 1e-3)] == [everyone]
    assert [kept.tolist() for kept in method._needed(torch.ones(2), 1.0)] == [[True, True]]
