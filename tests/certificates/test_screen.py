"""Gates that wait: their bounds hold, and a run that lets them wait ends where one that meets all does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.certificates import Screen, duality_gap, judged
from provenet.certificates import screen as rooms
from provenet.gauges import NuclearNorm
from provenet.gauges.spectral import spectral_norms, spectral_uppers
from provenet.operators import Operator
from provenet.problem import Problem, Program

GATES = 100


def posed(loss: str, outputs: int, share: float = 0.5, **more: object) -> Problem:
    rng = np.random.default_rng(outputs)
    X = rng.standard_normal((80, 4))
    scores = np.maximum(X @ rng.standard_normal((4, 8)), 0) @ rng.standard_normal((8, outputs))
    Y = scores if loss in ("squared", "huber") else scores.argmax(1) if outputs > 1 else scores[:, 0] > 0
    problem = pn.formulate("mlp", X, np.asarray(Y, dtype=float if loss in ("squared", "huber") else int),
                           loss=loss, gates=GATES, **more)  # fmt: skip
    return problem.with_beta(share * problem.beta_max)


def near(program: Program, problem: Problem, tol: float) -> tuple[torch.Tensor, float]:
    """Prediction and penalty of a point with this gap."""
    factors = pn.solve(problem, tol=tol).factors
    return program.operator.forward_factors(factors), float(factors.penalty())


@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 1), ("squared", 4), ("softmax", 3), ("logistic", 1), ("huber", 2)]
)
def test_the_gap_is_that_of_all_gates(loss: str, outputs: int) -> None:
    """Along a run: bounds of gates that wait are bounds, and the dual point is as good as with every gate met."""
    problem = posed(loss, outputs)
    program, waited = problem.program, 0
    screen = Screen(program)
    for tol in (1e-2, 1e-4, 1e-6):
        prediction, penalty = near(program, problem, tol)
        theta = program.loss.dual_at(prediction)
        waiting = screen.waiting(theta)
        true = spectral_norms(program.operator.adjoint(theta))
        if waiting is not None:
            waited += int((waiting <= program.beta).sum())
            assert bool((waiting >= true).all())
        whole = duality_gap(program, prediction, penalty)
        some = duality_gap(program, prediction, penalty, screen=screen)
        assert some.polar_max >= float(true.max())
        assert some.dual <= whole.dual + 1e-12 * abs(whole.dual)
        if whole.polar_max >= program.beta:  # else what waits may be β, and τ not as large as it could be
            assert some.dual == pytest.approx(whole.dual, rel=1e-12)
    assert waited > GATES // 2


def test_runs_end_where_unscreened_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for loss, outputs in (("squared", 3), ("softmax", 3)):
        problem = posed(loss, outputs)
        screened = pn.solve(problem, "lbfgs", tol=1e-7)
        with monkeypatch.context() as patch:
            patch.setattr(Screen, "serves", staticmethod(lambda program: False))
            whole = pn.solve(problem, "lbfgs", tol=1e-7)
        assert screened.certificate.relative_gap <= 1e-7
        assert screened.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-7)
        assert whole.certificate.dual <= screened.certificate.primal


def test_a_run_meets_few_gates_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this is for."""
    problem = posed("squared", 1, 0.4)
    met: list[int] = []
    inside = type(problem.program.operator).adjoint

    def counted(self: Operator, residual: torch.Tensor) -> torch.Tensor:
        met.append(self.n_gates)
        return inside(self, residual)

    monkeypatch.setattr(type(problem.program.operator), "adjoint", counted)
    pn.solve(problem, "lbfgs", tol=1e-8)
    assert min(met[:-1]) <= GATES // 4
    assert met[-1] == GATES  # the certificate's own, of all


def test_a_gate_that_moves_beyond_beta_is_met() -> None:
    """However far Θ jumps."""
    program = posed("squared", 2).program
    screen = Screen(program)
    far = torch.randn(program.loss.target.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = far * 0.1 * program.beta / float(spectral_norms(program.operator.adjoint(far)).max())
    judged(program, near, final=False, screen=screen)
    assert screen.waiting(1.01 * near) is not None
    found = judged(program, 1e3 * far, final=False, screen=screen)
    assert found.polar_max >= float(spectral_norms(program.operator.adjoint(1e3 * far)).max())


def test_where_no_bound_is_known_every_gate_is_met() -> None:
    rng = np.random.default_rng(0)
    problem = pn.formulate("poolformer", rng.standard_normal((20, 4, 3)), rng.standard_normal(20), gates=64, beta=1.0)
    program = problem.program
    assert program.operator.pull_upper(program.loss.target) == math.inf
    screen = Screen(program)
    judged(program, program.loss.target, final=False, screen=screen)
    assert screen.waiting(program.loss.target) is None


def test_few_gates_are_not_screened() -> None:
    assert not Screen.serves(posed("squared", 1).program.restrict(torch.arange(rooms._FEWEST - 1)))


@pytest.mark.parametrize("shape", [(80, 7, 5), (80, 3, 9), (80, 4, 1), (70, 6, 6)])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
def test_bounds_without_eigenvalues(shape: tuple[int, int, int], scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    stack = (
        scale
        * torch.randn(shape, generator=generator, dtype=torch.float64)
        * torch.logspace(-3, 0, shape[0])[:, None, None]
    )
    stack[3] = 0
    true = spectral_norms(stack)
    upper = spectral_uppers(stack)
    assert bool((upper >= true).all())
    assert bool((upper <= true * min(shape[1:]) ** 0.125 * (1 + 1e-9)).all())
    bounds, polar = NuclearNorm().largest(stack), NuclearNorm().polar(stack)
    assert float(bounds.upper.max()) == pytest.approx(float(polar.upper.max()), rel=1e-12)
    assert bool((bounds.lower <= true).all())
    assert bool((true <= bounds.upper).all())
