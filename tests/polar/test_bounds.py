"""Every kind of bound is at least the polar from the formed stack, and says what kind it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import known_at_zero
from provenet.gauges import Asked
from provenet.polar import bounds, frobenius, krylov, lanczos, met, polar_bounds, remembering
from provenet.problem import Program


def program_of(activation: str, n: int = 60, d: int = 40, outputs: int = 30) -> Program:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, 6, d, generator=generator, dtype=torch.float64)
    Y = torch.randn(n, outputs, generator=generator, dtype=torch.float64)
    return pn.formulate(pn.PoolFormer(grid=(2, 3)), X, Y, activation=activation, gates=5).program


def theta_of(program: Program) -> torch.Tensor:
    return program.loss.gradient(torch.zeros_like(program.loss.target))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(bounds, "LARGE_BYTES", 1000)
    return monkeypatch


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_each_kind_holds_and_is_close(activation: str, large: pytest.MonkeyPatch) -> None:
    program = program_of(activation)
    op, theta = program.operator, theta_of(program)
    true = torch.linalg.matrix_norm(op.adjoint(theta), 2)

    exact = polar_bounds(op, program.gauge, theta, final=True)
    assert exact.kind == "exact"
    assert bool((exact.upper >= true).all())
    assert bool((exact.upper <= true * (1 + 1e-9)).all())

    large.setattr(bounds, "_FINAL_WORK", 0)
    deterministic = polar_bounds(op, program.gauge, theta, final=True)
    assert deterministic.kind == "deterministic"  # thirty columns: the Krylov space is all there is
    assert bool((deterministic.upper >= true).all())
    assert float(deterministic.upper.max()) <= float(true.max()) * (1 + 1e-6)

    large.setattr(bounds, "_KERNEL_ROWS", 0)
    for final in (True, False):
        probable = polar_bounds(op, program.gauge, theta, final)
        assert probable.kind == "probabilistic"
        assert bool((probable.upper >= true).all())
        assert bool((probable.lower <= true).all())
        assert float(probable.upper.max()) <= float(true.max()) * (1 + 2e-5)


def test_the_deflated_norm_holds_where_it_is_loose(large: pytest.MonkeyPatch) -> None:
    """A flat spectrum and a narrow Krylov space: far above, never below, and therefore not taken."""
    program = program_of("linear", n=200, d=60, outputs=50)
    large.setattr(frobenius, "_WIDTH", 2)
    large.setattr(frobenius, "_DEPTH", 2)
    op, theta = program.operator, theta_of(program)
    true = float(torch.linalg.matrix_norm(op.adjoint(theta)[0], 2))
    loose = frobenius.deflated_bound(op, theta, 0.0)
    assert true < loose < float(torch.linalg.matrix_norm(op.adjoint(theta)[0])) * (1 + 1e-9)
    large.setattr(bounds, "_FINAL_WORK", 0)
    assert polar_bounds(op, program.gauge, theta, final=True).kind == "probabilistic"


def test_the_deflated_norm_survives_cancellation(large: pytest.MonkeyPatch) -> None:
    """Where V takes all of G, ‖G‖² − ‖GV‖² is rounding, of either sign: the bound must still hold."""
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        X = torch.randn(30, 4, 3, generator=generator, dtype=torch.float64)
        Y = torch.randn(30, 2, generator=generator, dtype=torch.float64)
        program = pn.formulate(pn.PoolFormer(), X, Y, activation="linear").program
        op, theta = program.operator, theta_of(program)
        true = float(torch.linalg.matrix_norm(op.adjoint(theta)[0], 2))
        bound = frobenius.deflated_bound(op, theta, 0.0)
        assert true * (1 - 1e-15) <= bound <= true * (1 + 1e-6)


def test_a_certificate_says_how_its_polar_was_bounded(large: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 6, 20, generator=generator, dtype=torch.float64)
    Y = torch.randn(40, 15, generator=generator, dtype=torch.float64)
    problem = pn.formulate(pn.PoolFormer(grid=(2, 3)), X, Y, activation="linear")
    problem = problem.with_beta(0.2 * problem.beta_max)
    solution = pn.solve(problem, tol=1e-5)
    assert solution.certificate.bound == "exact"
    large.setattr(bounds, "_FINAL_WORK", 0)
    large.setattr(bounds, "_KERNEL_ROWS", 0)
    again = pn.certify(problem, solution.network(), tol=1e-5)
    assert again.bound == "probabilistic"
    assert again.polar_max >= solution.certificate.polar_max * (1 - 1e-9)
    assert again.relative_gap <= 2e-5


@pytest.mark.parametrize("outputs", [1, 2])
def test_cones_keep_their_gates_where_the_stack_is_taken_in_parts(
    outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 3)), rng.standard_normal((12, outputs))
    program = pn.formulate("mlp", X, Y, "relu", gates=7).program
    theta = -program.loss.gradient(torch.zeros_like(program.loss.target))
    whole = program.gauge.polar(program.operator.adjoint(theta))
    monkeypatch.setattr("provenet.polar.bounds.LARGE_BYTES", 2 * program.operator.stack_bytes // 7)
    parts = program.polar(theta)
    assert float(parts.upper.max()) == pytest.approx(float(whole.upper.max()), rel=1e-7)
    assert bool((parts.upper >= whole.lower * (1 - 1e-9)).all())


def test_bounds_that_need_not_be_close_hold_and_take_fewer_products(large: pytest.MonkeyPatch) -> None:
    program = program_of("linear", n=200, d=60, outputs=50)
    large.setattr(bounds, "_SMALL_SIDE", 0)
    op, theta = program.operator, theta_of(program)
    true = float(torch.linalg.matrix_norm(op.adjoint(theta)[0], 2))
    steps = []

    def counted(near: float) -> float:
        steps.append(0)
        made = lanczos.Tridiagonals.after

        def after(self: lanczos.Tridiagonals, image: torch.Tensor) -> lanczos.Tridiagonals:
            steps[-1] += 1
            return made(self, image)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lanczos.Tridiagonals, "after", after)
            return float(polar_bounds(op, program.gauge, theta, asked=Asked(near=near)).upper.max())

    fine, rough = counted(0.0), counted(0.1)
    assert true <= fine <= true * (1 + 2e-5)
    assert true <= rough <= true * 1.1 * (1 + 1e-9)
    assert 0 < steps[1] < steps[0]


def test_bounds_are_met_again_where_the_dual_point_has_hardly_moved(large: pytest.MonkeyPatch) -> None:
    """Within a run; what is met again holds at the new point, however far that is."""
    program = program_of("gated_relu")
    large.setattr(bounds, "_FINAL_WORK", 0)
    large.setattr(bounds, "_KERNEL_ROWS", 0)
    large.setattr(bounds, "_SMALL_SIDE", 0)
    large.setattr(bounds, "_DEAR", 0)
    op, theta = program.operator, theta_of(program)
    noise = torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    made, plain = [], bounds.spectral_bounds

    def counted(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        made.append(0)
        return plain(*arguments)  # type: ignore[arg-type]

    large.setattr(bounds, "spectral_bounds", counted)
    asked = Asked(near=1e-2)
    for share, anew in ((0.0, False), (1e-12, False), (0.5, True)):
        made.clear()
        with remembering():
            first = polar_bounds(op, program.gauge, theta, True, asked)
            there = 2 * (theta + share * noise)
            again = polar_bounds(op, program.gauge, there, True, asked)
        true = torch.linalg.matrix_norm(op.adjoint(there), 2)
        assert len(made) == 1 + anew
        assert bool((again.upper >= true).all())
        assert bool((again.lower <= true).all())
        assert float(again.upper.max()) <= float(true.max()) * 1.01 * (1 + 1e-6)
        assert first.kind == again.kind == "probabilistic"
    made.clear()
    for _ in range(2):
        polar_bounds(op, program.gauge, theta, True, asked)
    assert len(made) == 2  # outside a run nothing is remembered


def test_what_is_known_to_be_lost_takes_no_products(large: pytest.MonkeyPatch) -> None:
    program = program_of("linear", n=200, d=60, outputs=50)
    large.setattr(bounds, "_SMALL_SIDE", 0)
    large.setattr(bounds, "_DEAR", 0)
    theta = theta_of(program)
    true = float(torch.linalg.matrix_norm(program.operator.adjoint(theta)[0], 2))
    large.setattr(bounds, "products_of", None)
    found = polar_bounds(program.operator, program.gauge, theta, asked=Asked(lost=0.5 * true, least=0.9 * true))
    assert float(found.upper) >= true


@pytest.mark.parametrize("sides", [(40, 30), (30, 40)])
def test_pairs_of_both_chains_are_singular_pairs(sides: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    U, _, V = torch.linalg.svd(torch.randn(2, *sides, generator=generator, dtype=torch.float64), full_matrices=False)
    sigma = 0.6 ** torch.arange(30, dtype=torch.float64)
    stack, made = (U * sigma) @ V, []

    def products(u: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made.append(len(u))
        return (stack[gate] @ v[:, :, None])[:, :, 0], (stack[gate].mT @ u[:, :, None])[:, :, 0]

    found, left, right = krylov.leading_by_products(products, torch.arange(2), *sides, 2, 6)
    assert made == [4] * 6
    assert bool((found <= sigma[:12] * (1 + 1e-12)).all())
    assert bool((found[:, :3] >= sigma[:3] * (1 - 1e-3)).all())
    torch.testing.assert_close(left.mT @ left @ left.mT, left.mT)
    values = torch.einsum("kmp,kpq,kmq->km", left, stack, right)
    torch.testing.assert_close(values, found)


def test_bounds_are_not_met_again_where_samples_are_spread(
    large: pytest.MonkeyPatch,
) -> None:
    """How far a dual point has moved is a matter of all processes' rows."""
    program = program_of("linear")
    theta = theta_of(program)
    found = program.gauge.polar(program.operator.adjoint(theta))
    with remembering():
        met.remember(program.operator, theta, found)
        assert met.met(program.operator, program.gauge, theta) is not None
    large.setattr(type(program.operator.shards), "spread", True)
    with remembering():
        met.remember(program.operator, theta, found)
        assert met.met(program.operator, program.gauge, theta) is None


def test_starts_that_data_could_know_are_met_by_no_certificate(large: pytest.MonkeyPatch) -> None:
    """Those of β_max; a look's are the system's randomness, also where no polar near β would do."""
    program = program_of("gated_relu")
    large.setattr(bounds, "_SMALL_SIDE", 0)
    large.setattr(bounds, "_DEAR", 0)
    seeds, plain = [], bounds.spectral_bounds

    def counted(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        seeds.append(arguments[7])
        return plain(*arguments)  # type: ignore[arg-type]

    large.setattr(bounds, "spectral_bounds", counted)
    for asked, seed, known in ((Asked(near=1e-2), 0, False), (Asked(against=1.0, near=1e-2), None, True)):
        with remembering():
            polar_bounds(program.operator, program.gauge, theta := theta_of(program), asked=asked)
            assert seeds[-1] is seed
            assert (met.met(program.operator, program.gauge, theta) is not None) is known


def test_a_largest_beta_of_zero_bounds_nothing() -> None:
    """It says that no more than rounding was found, which is not none."""
    program = program_of("linear")
    for known, told in ((None, False), (0.0, False), (1.0, True)):
        vars(program)["beta_max"] = known
        assert (known_at_zero(program, torch.zeros_like(program.loss.target)) is not None) is told


def test_no_more_bounds_of_a_run_are_met_again_than_fail_together(large: pytest.MonkeyPatch) -> None:
    """The stated probability is shared among so many; the certificate makes its own after that."""
    program = program_of("linear")
    theta = theta_of(program)
    found = program.gauge.polar(program.operator.adjoint(theta))
    large.setattr(met, "LOOKS", 3)
    again = []
    with remembering():
        for _ in range(4):
            met.remember(program.operator, theta, found)
            again.append(met.met(program.operator, program.gauge, theta) is not None)
    assert again == [True, True, False, False]
