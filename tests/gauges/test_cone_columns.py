"""ReLU with the 1-norm for second layers: neurons with one output each, and proofs that are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet.cones import Cones
from provenet.gauges import ConeColumns, ConeNuclear
from provenet.nn import MLP
from provenet.operators import ByOutput, MLPOperator
from provenet.proofs.independent import second_opinion
from provenet.report import render_report
from provenet.solvers.path import path
from provenet.testing import check_operator
from provenet.variable import Factors
from provenet.verify import Data


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def columns(P: int, p: int, N: int = 12) -> ConeColumns:
    rows, inside = normal(N, p, seed=1), normal(P, p, seed=2)
    return ConeColumns(Cones.of(rows, inside @ rows.T >= 0, inside))


def solved(X: Any, Y: Any, gates: Any, method: str = "auto", tol: float = 1e-6, **settings: Any) -> pn.Solution:
    problem = pn.formulate("mlp", X, Y, "relu", gates=gates, penalty=(2, 1), **settings)
    return pn.solve(problem, method, tol=tol)


def test_the_operator() -> None:
    op = ByOutput(MLPOperator(normal(7, 3), normal(7, 4, seed=1) > 0, 2))
    check_operator(op)
    check_operator(op.restrict(torch.tensor([5, 0, 3])))
    neurons = Factors(normal(5, 3), normal(5, 1, seed=1), torch.tensor([0, 7, 4, 4, 2]))
    again = op.raised(op.lowered(neurons))
    assert sorted(again.gate.tolist()) == sorted(neurons.gate.tolist())
    torch.testing.assert_close(again.stack(8), neurons.stack(8))


@pytest.mark.parametrize(("p", "c"), [(2, 3), (5, 4)])
def test_the_polar_is_that_of_columns(p: int, c: int) -> None:
    gauge, G = columns(6, p), normal(6, p, c, seed=3)
    bounds = gauge.polar(G)
    assert bounds.kind == "exact"
    assert float(bounds.upper.max()) == pytest.approx(float(bounds.lower.max()), rel=1e-7)
    alone = [float(ConeNuclear(gauge.region).polar(G[:, :, j : j + 1]).upper.max()) for j in range(c)]
    largest = float(bounds.upper.max())
    assert largest == pytest.approx(max(alone), rel=1e-7)
    assert largest <= float(ConeNuclear(gauge.region).polar(G).upper.max()) * (1 + 1e-7)  # ‖v‖₁ ≥ ‖v‖₂
    assert float(gauge.largest(G).upper.max()) == pytest.approx(largest, rel=1e-7)
    neurons = Factors(normal(5, p), normal(5, c, seed=1), torch.arange(5))
    moved = gauge.inside(neurons)
    assert bool((gauge.region.slack(moved.left, moved.gate) >= 0).all())


@pytest.mark.parametrize(("d", "gates"), [(2, "all"), (4, 15)])
def test_outputs_are_trained_apart(d: int, gates: Any) -> None:
    """With a loss that adds up over the outputs, the optimum is that of each output by itself, same gates and β."""
    X, Y = normal(16, d), normal(16, 3, seed=1)
    together = solved(X, Y, gates, beta=0.5)
    vectors = gates if gates == "all" else together.problem.gate_vectors
    alone = [pn.solve(pn.formulate("mlp", X, Y[:, j], "relu", gates=vectors, beta=0.5), tol=1e-7) for j in range(3)]
    assert together.certificate.status == "certified"
    assert together.certificate.bound == "exact"
    assert together.certificate.primal == pytest.approx(sum(s.certificate.primal for s in alone), rel=2e-6)
    decay = pn.solve(pn.formulate("mlp", X, Y, "relu", gates=vectors, beta=0.5), tol=1e-4)
    assert decay.certificate.dual <= together.certificate.primal  # ‖v‖₂ ≤ ‖v‖₁


@pytest.mark.parametrize("loss", ["squared", "softmax"])
def test_methods_agree_and_the_checker_too(loss: str) -> None:
    X = normal(14, 3).numpy()
    Y = np.eye(3)[np.arange(14) % 3] if loss == "softmax" else normal(14, 3, seed=1).numpy()
    best = [solved(X, Y, 12, method, beta=0.2, loss=loss) for method in ("frank_wolfe", "bm", "cvx")]
    for solution in best:
        network: Any = solution.network()
        assert solution.certificate.status == "certified"
        assert solution.certificate.primal == pytest.approx(best[0].certificate.primal, rel=2e-6)
        assert bool(((network.second != 0).sum(1) == 1).all())
        side = torch.from_numpy(X) @ network.first.detach().T
        opened = solution.problem.patterns[solution.factors.gate].T
        assert bool(torch.where(opened, side >= 0, side <= 0).all())
        verdict = second_opinion(solution.problem, network, Data(X, Y))
        assert verdict.exact
        assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
        assert verdict.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-7)


def test_any_network_is_judged_in_these_norms() -> None:
    X, Y = normal(10, 2), normal(10, 3, seed=1)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=0.3, penalty=(2, 1))
    network = MLP.from_weights(normal(4, 2, seed=2), normal(4, 3, seed=3), relu=True)
    certificate = pn.certify(problem, network)
    with torch.no_grad():
        loss = 0.5 * float((network(X) - Y).square().sum())
        cost = 0.5 * float(network.first.square().sum() + network.second.abs().sum(1).square().sum())
    assert certificate.primal == pytest.approx(loss + 0.3 * cost, rel=1e-12)
    assert certificate.dual <= solved(X, Y, "all", beta=0.3).certificate.primal
    assert "‖u‖₂² + ‖v‖₁²" in str(certificate)
    assert certificate.improve() is None  # escapes know weight decay alone


def test_paths_folders_reports_and_estimators(tmp_path: Any) -> None:
    X, Y = normal(12, 3), normal(12, 2, seed=1)
    problem = pn.formulate("mlp", X, Y, "relu", gates=8, penalty=(2, 1))
    solutions = path(problem, 3, tol=1e-5, beta_ratio=0.05)
    assert solutions[0].factors.n_neurons == 0
    assert all(s.certificate.holds(1e-5) for s in solutions)
    assert "‖u‖₂² + ‖v‖₁²" in render_report(solution=solutions[-1])
    pn.save(solutions[-1], tmp_path / "model")
    again = pn.load(tmp_path / "model").certify(X, Y, tol=1e-5)
    assert again.primal == pytest.approx(solutions[-1].certificate.primal, rel=1e-12)
    assert again.status == "certified"
    fitted = pn.ProvenClassifier(activation="relu", n_gates=8, penalty=(2, 1)).fit(X.numpy(), np.arange(12) % 3)
    assert fitted.certificate_.status == "certified"
    assert fitted.certificate_.penalty == (2, 1)


def test_one_output_is_weight_decay() -> None:
    X, y = normal(12, 2), normal(12, 1, seed=1)
    assert type(pn.formulate("mlp", X, y, "relu", gates="all", penalty=(2, 1)).program.gauge) is ConeNuclear
    values = [
        pn.solve(pn.formulate("mlp", X, y, "relu", gates="all", beta=0.3, penalty=norms)) for norms in ((2, 1), (2, 2))
    ]
    assert values[0].certificate.primal == pytest.approx(values[1].certificate.primal, rel=1e-6)


@pytest.mark.parametrize("norms", [(1, 2), (2, np.inf), (np.inf, np.inf)])
def test_other_norms_of_relu_are_refused_with_advice(norms: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"penalty: .* ReLU .* choose \(2, 2\), weight decay, or \(2, 1\)"):
        pn.formulate("mlp", normal(5, 2), normal(5, 2), "relu", gates=3, penalty=norms)
