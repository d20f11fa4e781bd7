"""A proof that a run has found is not thrown away: its dual point is carried and checked; the better one stands."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import provenet as pn
from provenet import deadline
from provenet.certificates import DualPoint, dual_point, judged
from provenet.gauges import NOTHING, Asked, BoundKind, NuclearNorm
from provenet.gauges.base import Bounds
from provenet.problem import Problem, Program
from provenet.proofs.independent import second_opinion
from provenet.solvers import Method, Point, Status
from provenet.solvers.loop import Limits, run
from provenet.solvers.stacks.apg import APG
from provenet.variable import Factors


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def posed(X: np.ndarray, outputs: int = 2, loss: str = "squared") -> Problem:
    Y = np.arange(len(X)) % 3 if loss == "softmax" else normal(len(X), outputs, seed=1)
    problem = pn.formulate("mlp", X, Y, gates=6, beta=1.0, loss=loss)
    return problem.with_beta(0.1 * problem.beta_max)


class Hasty(NuclearNorm):
    """Once time is up its bounds are rough: the Frobenius norm, twice."""

    def largest(self, stack: Tensor, asked: Asked = NOTHING) -> Bounds:
        found = super().largest(stack, asked)
        return Bounds(found.lower, 2 * torch.linalg.matrix_norm(stack)) if deadline.over() else found


@pytest.mark.parametrize("X", [normal(20, 3), normal(8, 3) @ normal(3, 12, seed=1)], ids=["whole", "reduced"])
def test_what_the_judge_has_proven_in_the_run_stands_when_time_is_up(
    X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = posed(X)
    problem = replace(problem, program=replace(problem.program, gauge=Hasty()))
    monkeypatch.setattr(sys.modules["provenet.solvers.solve"], "_for_the_proof", lambda *_: 0.0)
    solution = pn.solve(problem, tol=1e-7, max_seconds=60)
    assert solution.status is Status.SOLVED
    assert solution.certificate.holds(1e-7)
    assert solution.certificate.dual_of == "run"
    assert "the run's own dual point" in str(solution.certificate)
    with deadline.within(0.0):  # the network alone has not got it
        assert pn.certify(problem, solution.network()).relative_gap > 0.1


@dataclass(frozen=True)
class Foreknowing(Method[Factors]):
    """Stands at a poor network, with a dual point of its own."""

    own: DualPoint
    poor: Factors

    name = "foreknowing"
    reduces = False

    def init(self, program: Program, start: Factors | None) -> Factors:
        return self.poor

    def step(self, program: Program, state: Factors) -> Factors:
        return state

    def finished(self, state: Factors) -> bool:
        return True

    def point(self, program: Program, state: Factors) -> Point:
        return Point(program.operator.forward_factors(state), float(state.penalty()), lambda: state, self.own)


def best_and_poor(problem: Problem) -> tuple[DualPoint, Factors]:
    """The dual solution, and neurons a little off the optimum: their gradients prove far less."""
    best = run(APG(), problem.program, Limits(1e-9))
    assert best.proven is not None
    noise = torch.Generator().manual_seed(0)
    left = best.factors.left + 1e-3 * torch.randn(best.factors.left.shape, generator=noise, dtype=torch.float64)
    return best.proven, replace(best.factors, left=left)


def foreknown(loss: str = "squared") -> pn.Solution:
    problem = posed(normal(20, 3), loss=loss)
    own, poor = best_and_poor(problem)
    return pn.solve(problem, Foreknowing(own, poor), tol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_the_runs_dual_point_proves_more_than_the_networks(loss: str) -> None:
    solution = foreknown(loss)
    problem, certificate = solution.problem, solution.certificate
    alone = pn.certify(problem, solution.network())
    assert certificate.dual_of == "run"
    assert certificate.gap < 0.1 * alone.gap
    assert certificate.primal == alone.primal
    assert certificate.polar_max == alone.polar_max  # said of the network itself
    assert certificate.dual == pytest.approx(solution.lower_bound, rel=1e-12)
    verdict = second_opinion(problem, solution.network(), theta=certificate.theta)
    assert verdict.dual == pytest.approx(certificate.dual, rel=1e-9)
    assert second_opinion(problem, solution.network()).dual < verdict.dual


def test_a_methods_word_is_not_taken() -> None:
    """Its Θ is bounded anew: a polar that it made up proves nothing."""
    problem = posed(normal(20, 3))
    own, poor = best_and_poor(problem)
    boast = dual_point(problem.program, 1.5 * own.theta, own.polar_max, BoundKind.EXACT)
    solution = pn.solve(problem, Foreknowing(boast, poor), tol=1e-6)
    honest = judged(problem.program, 1.5 * own.theta).lower * problem.units.value
    assert solution.certificate.dual <= max(honest, pn.certify(problem, solution.network()).dual)


def test_folders_keep_the_dual_point(tmp_path: Path) -> None:
    solution = foreknown()
    problem = solution.problem
    pn.save(solution, tmp_path / "model")
    saved = pn.load(tmp_path / "model")
    assert saved.certificate == solution.certificate
    again = saved.certify(problem.X, problem.loss.target)
    assert again.dual_of == "run"
    assert again.dual == pytest.approx(solution.certificate.dual, rel=1e-12)
    other = saved.certify(problem.X[:-1], problem.loss.target[:-1])  # other samples: the network's own
    assert other.dual_of == "network"


def test_a_folder_without_the_dual_point_it_rests_on_is_refused(tmp_path: Path) -> None:
    solution = foreknown()
    bare = replace(solution, certificate=replace(solution.certificate, theta=None))
    pn.save(bare, tmp_path / "model")
    with pytest.raises(ValueError, match="dual missing"):
        pn.load(tmp_path / "model")
