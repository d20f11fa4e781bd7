"""Programs whose every product with a vector counts: one proof, made of few of them, where it is likely to succeed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet.polar import bounds
from provenet.solvers.loop import Limits, run
from provenet.solvers.neurons.lbfgs import method

TOL = 1e-2


def tokens() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4, 5)), rng.integers(0, 3, 60)
    X[np.arange(60), :, y] += 0.7
    return X, y


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The least polar that was asked for, of every bound by products."""
    for name, value in (
        ("LARGE_BYTES", 1000),
        ("_DEAR", 0),
        ("_SMALL_SIDE", 0),
        ("_FINAL_WORK", 0),
        ("_KERNEL_ROWS", 0),
    ):
        monkeypatch.setattr(bounds, name, value)
    made: list[float] = []
    plain = bounds.spectral_bounds

    def counted(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        made.append(float(arguments[8]))  # type: ignore[arg-type]
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bounds, "spectral_bounds", counted)
    return made


def test_a_dear_program_is_proven_once(proofs: list[float]) -> None:
    X, y = tokens()
    found = pn.ProvenClassifier(block="attention", n_gates=3, gates="gaussian", tol=TOL, beta="0.05max").fit(X, y)
    certificate = found.certificate_
    assert certificate.holds(TOL)
    assert certificate.bound == "probabilistic"
    assert proofs[0] == 0  # of β_max: as well as it is asked for
    assert len(proofs) <= 3
    assert found.solution_.method.startswith("lbfgs")
    again = pn.certify(found.solution_.problem, found.network_, tol=TOL)  # by itself, with nothing remembered
    assert again.holds(TOL)


def test_what_is_proven_is_below_the_optimum(proofs: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = tokens()
    found = pn.ProvenClassifier(block="attention", n_gates=3, gates="gaussian", tol=TOL, beta="0.05max").fit(X, y)
    monkeypatch.setattr(bounds, "LARGE_BYTES", 2**30)
    best = pn.solve(found.solution_.problem, tol=1e-6)
    assert found.certificate_.dual <= best.certificate.primal
    assert best.certificate.dual <= found.certificate_.primal


def test_neurons_that_come_to_fewer_are_those(proofs: list[float]) -> None:
    """Two halves of each neuron are one again, the objective no worse, and steps go on."""
    X, y = tokens()
    fit = pn.ProvenClassifier(block="attention", n_gates=3, gates="gaussian", tol=TOL, beta="0.05max").fit(X, y)
    program, factors = fit.solution_.problem.program, fit.solution_.factors
    lbfgs = method.LBFGS(single=False)
    halves = pn.variable.Factors.join(factors.scaled(0.5**0.5), factors.scaled(0.5**0.5))
    state = lbfgs.init(program, halves)
    fewer = lbfgs._with_fewer(program, state)
    assert fewer.at.factors.n_neurons == factors.n_neurons
    assert fewer.at.value <= state.at.value * (1 + 1e-9)
    assert lbfgs._with_fewer(program, fewer) is fewer


def test_a_run_cut_short_keeps_its_best_network(proofs: list[float]) -> None:
    """Looks that could prove nothing are told apart by their objectives, not by gaps: zero has a better one."""
    X, y = tokens()
    block = pn.SelfAttention()
    problem = pn.formulate(block, X, np.eye(3)[y], gates=3, loss="softmax")
    problem = problem.with_beta(0.6 * problem.beta_max)
    zero = float(problem.program.loss.value(torch.zeros_like(problem.program.loss.target))) * problem.units.value
    with pytest.warns(ConvergenceWarning):
        found = pn.solve(problem, "lbfgs", tol=1e-9, max_steps=9)
    assert found.certificate.primal < 0.999 * zero
    assert found.factors.n_neurons > 0


def test_a_start_for_more_samples_is_not_proven(proofs: list[float]) -> None:
    """It ends where nothing found pulls much harder than β, with no bound tried."""
    X, y = tokens()
    problem = pn.formulate(pn.SelfAttention(), X, np.eye(3)[y], gates=3, loss="softmax")
    program = problem.with_beta(0.1 * problem.beta_max).program
    proofs.clear()
    done = run(method.LBFGS(rough=True), program, Limits(1e-9, max_steps=240))
    assert not proofs
    assert done.steps < 100
    pull = torch.linalg.matrix_norm(
        program.operator.adjoint(program.loss.gradient(program.operator.forward_factors(done.factors))), 2
    )
    assert program.beta < float(pull.max()) < 1.3 * program.beta


@pytest.mark.parametrize("dear", [0, float("inf")])
def test_a_run_by_products_goes_on_as_if_it_had_not_been_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dear: float
) -> None:
    """Where the singular pairs were found last is in the snapshot."""
    for name, value in (("LARGE_BYTES", 1000), ("_DEAR", dear), ("_SMALL_SIDE", 0)):
        monkeypatch.setattr(bounds, name, value)
    X = np.random.default_rng(1).standard_normal((80, 30))
    posed = pn.formulate("mlp", X, np.sin(X[:, :20]) * X[:, 5:25], gates=2, beta=0.5)
    posed = posed.with_beta(0.02 * posed.beta_max)

    class Killed(BaseException):
        pass

    def cut(record: pn.solvers.Record) -> bool:
        if record.step >= 14:
            raise Killed
        return False

    def solved(folder: str, callback: object = None) -> pn.Solution:
        with pytest.warns(ConvergenceWarning), pn.snapshots(tmp_path / folder, every=1):
            return pn.solve(posed, "lbfgs", tol=1e-9, max_steps=24, callback=callback)

    whole = solved("whole")
    with pytest.raises(Killed), pn.snapshots(tmp_path / "cut", every=1):
        pn.solve(posed, "lbfgs", tol=1e-9, max_steps=24, callback=cut)
    again = solved("cut")
    assert torch.equal(again.factors.left, whole.factors.left)
    assert torch.equal(again.factors.right, whole.factors.right)
