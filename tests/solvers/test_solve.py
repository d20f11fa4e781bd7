"""auto, stages, rank reduction, tidying, memory and threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import memory
from provenet.proofs.independent import second_opinion
from provenet.solvers import METHODS
from provenet.solvers.interior.active import ActiveIPM
from provenet.solvers.loop import Limits, run
from provenet.solvers.solve import _judged
from provenet.solvers.threads import right_threads


def regression(n: int, d: int, c: int, gates: int, fraction: float = 0.05, seed: int = 0, **more: object) -> pn.Problem:
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, c))
    problem = pn.formulate("mlp", X, Y, gates=gates, **more)  # type: ignore[arg-type]
    return problem.with_beta(fraction * problem.beta_max)


def test_solution_says_what_ran() -> None:
    assert pn.solve(regression(40, 2, 3, 20), tol=1e-6).method == "ipm"


def test_memory_is_told_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = regression(200, 5, 1, 10)
    monkeypatch.setattr(memory, "_TRIFLE", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000)
    with pytest.raises(MemoryError, match=r"'admm' needs .* GiB, and .* GiB are free"):
        pn.solve(problem, "admm")


@pytest.mark.parametrize("method", ["nonsense", "ADMM", ""])
def test_unknown_methods_are_named(method: str) -> None:
    with pytest.raises(ValueError, match=r"method: .* is unknown; choose 'auto' or one of"):
        pn.solve(regression(10, 2, 1, 3), method)


@pytest.mark.parametrize("tol", [0, -1.0, float("nan"), True, "1e-3"])
def test_bad_tolerances_are_named(tol: object) -> None:
    with pytest.raises(ValueError, match="tol:"):
        pn.solve(regression(10, 2, 1, 3), tol=tol)  # type: ignore[arg-type]


def test_few_samples_in_many_dimensions_are_reduced() -> None:
    """n ≪ d: the solver works in n dimensions, the certificate in d."""
    problem = regression(12, 80, 3, 10)
    _, basis = problem.program.operator.reduced() or (None, None)
    assert basis is not None
    assert basis.shape == (80, 12)
    solution = pn.solve(problem, tol=1e-8)
    network = solution.network()
    assert network.first.shape[1] == 80
    assert second_opinion(problem, network).relative_gap <= 1e-8


def test_full_rank_data_are_not_reduced() -> None:
    assert regression(50, 5, 2, 8).program.operator.reduced() is None


def test_working_set_reaches_the_interior_points_optimum() -> None:
    problem = regression(60, 3, 2, 80, 0.1)
    whole = pn.solve(problem, "ipm", tol=1e-9)
    near = pn.solve(problem, "apg", tol=1e-4)
    done = run(ActiveIPM(), problem.program, Limits(1e-9), near.factors)
    assert done.status is pn.Status.SOLVED
    part = float(problem.program.objective_factors(done.factors)) * problem.units.value
    assert part == pytest.approx(whole.certificate.primal, rel=1e-8)
    assert len(torch.unique(done.factors.gate)) < 80


def test_tidying_never_costs_the_proof() -> None:
    problem = regression(60, 3, 1, 40, 0.2)
    solution = pn.solve(problem, "ipm", tol=1e-4)
    assert solution.certificate.holds(1e-4)
    size = solution.factors.left.norm(dim=1) * solution.factors.right.norm(dim=1)
    assert float(size.min()) > 1e-5 * float(size.max())


def test_warm_start_from_the_solution_needs_no_steps() -> None:
    problem = regression(60, 10, 3, 20)
    first = pn.solve(problem, "admm", tol=1e-7)
    again = pn.solve(problem, "admm", tol=1e-6, start=first)
    assert again.steps == 0
    assert again.status is pn.Status.SOLVED


def test_beta_max_is_where_the_zero_network_begins() -> None:
    problem = regression(30, 4, 2, 10)
    above = pn.solve(problem.with_beta(1.0001 * problem.beta_max))
    below = pn.solve(problem.with_beta(0.99 * problem.beta_max))
    assert above.factors.n_neurons == 0
    assert above.certificate.relative_gap <= 1e-12
    assert below.factors.n_neurons > 0


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with right_threads(1.0):
        assert torch.get_num_threads() == 1
    with right_threads(1e12):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_the_certificate_has_the_last_word() -> None:
    solved, stalled = pn.Status.SOLVED, pn.Status.STALLED
    assert _judged(solved, 1e-5, 1e-6) is pn.Status.SOLVED_INACCURATE
    assert _judged(solved, 1e-1, 1e-6) is stalled
    assert _judged(stalled, 1e-7, 1e-6) is solved


def test_the_docstring_names_every_method() -> None:
    told = (pn.solve.__doc__ or "").split("method : ")[1].split("\n    tol : ")[0]
    assert set(re.findall(r'"(\w+)"', told)) - {"auto"} == set(METHODS)
