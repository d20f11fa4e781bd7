"""ReLU on bad input: handled, with neurons in their cones and a certificate that the checker confirms, or refused by
name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.proofs.independent import second_opinion
from provenet.verify import Data, Statement, Weights, verify

draw = np.random.default_rng(0)
PLANE = draw.standard_normal((10, 2))
TARGETS = draw.standard_normal((14, 3))
DEGENERATE = {
    "rank two in five dimensions": draw.standard_normal((12, 2)) @ draw.standard_normal((2, 5)),
    "rank one": np.outer(draw.standard_normal(8), draw.standard_normal(3)),
    "duplicated rows": np.repeat(PLANE[:5], 2, axis=0),
    "opposite rows": np.vstack([PLANE[:5], -PLANE[:5]]),
    "rows along one another": np.vstack([PLANE[:5], 3 * PLANE[:5]]),
    "nearly duplicated rows": np.vstack([PLANE[:5], PLANE[:5] * (1 + 1e-13)]),
    "zero rows": np.vstack([PLANE, np.zeros((2, 2))]),
    "ties on a grid": np.array([[i, j] for i in (-1.0, 0, 1) for j in (-1.0, 0, 1)]),
    "columns of unlike size": PLANE * [1e8, 1e-8],
    "rows of unlike size": PLANE * np.logspace(-9, 9, 10)[:, None],
    "one sample": draw.standard_normal((1, 4)),
    "one feature": draw.standard_normal((7, 1)),
    "one number": np.array([[2.0]]),
    "the same sample": np.ones((6, 2)),
    "orthogonal rows": np.eye(4),
}


def solved(X: Any, Y: Any, gates: Any, ratio: float = 0.1, **settings: Any) -> pn.Solution:
    """Solve at a share of β_max; neurons are in their cones exactly, and the independent checker agrees."""
    problem = pn.formulate("mlp", X, Y, "relu", gates=gates, beta=1.0, **settings)
    problem = problem.with_beta(ratio * problem.beta_max) if problem.beta_max > 0 else problem
    solution = pn.solve(problem, tol=1e-5)
    network: Any = solution.network()
    side = problem.X.to(torch.float64) @ network.first.detach().T
    opened = problem.patterns[solution.factors.gate].T
    assert bool(torch.where(opened, side >= 0, side <= 0).all())
    verdict = second_opinion(problem, network, Data(*(np.asarray(a, dtype=np.float64) for a in (X, Y))))
    assert verdict.primal == pytest.approx(solution.certificate.primal, rel=1e-9)
    if verdict.exact:
        assert verdict.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-6)
    return solution


@pytest.mark.parametrize("gates", ["all", 9])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_samples(name: str, outputs: int, gates: Any) -> None:
    X = DEGENERATE[name]
    solution = solved(X, TARGETS[: len(X), :outputs], gates)
    assert solution.status is pn.Status.SOLVED
    assert solution.certificate.scope == ("all_arrangements" if gates == "all" else "fixed_gates")


@pytest.mark.parametrize("name", ["duplicated rows", "opposite rows", "zero rows", "ties on a grid"])
def test_no_arrangement_of_the_plane_is_missing(name: str) -> None:
    """By the checker's own sweep of the plane, which is told of no gates."""
    X = DEGENERATE[name]
    Y = TARGETS[: len(X)]
    network: Any = (solution := solved(X, Y, "all")).network()
    weights = Weights(network.first.detach().numpy(), network.second.detach().numpy())
    statement = Statement("squared", solution.problem.beta, relu=True, all_arrangements=True)
    swept = verify(Data(X, Y), weights, statement)
    assert swept.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-6)


@pytest.mark.parametrize("scale", [1e-250, 1e-12, 1e12, 1e250])
@pytest.mark.parametrize("gates", ["all", 9])
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_scale_of_x_changes_nothing(scale: float, gates: Any, outputs: int) -> None:
    """Squares of such numbers leave the range of float64; arrangements do not."""
    Y = TARGETS[:10, :outputs]
    plain = solved(PLANE, Y, gates)
    problem = pn.formulate("mlp", PLANE * scale, Y, "relu", gates=gates, beta=plain.problem.beta * scale)
    found = pn.solve(problem, tol=1e-5)
    assert len(problem.patterns) == len(plain.problem.patterns)
    assert found.status is pn.Status.SOLVED
    assert found.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-5)


@pytest.mark.parametrize("scale", [1e-100, 1e-12, 1e12, 1e100])
def test_the_scale_of_y(scale: float) -> None:
    assert solved(PLANE, TARGETS[:10] * scale, "all").status is pn.Status.SOLVED


def test_a_row_far_below_the_others_keeps_its_arrangements() -> None:
    X = PLANE.copy()
    X[3] *= 1e-200
    assert len(pn.formulate("mlp", X, TARGETS[:10], "relu", gates="all").patterns) == 20


@pytest.mark.parametrize("gates", ["all", 9])
def test_nothing_to_learn_from(gates: Any) -> None:
    for X, Y in ((np.zeros((6, 3)), TARGETS[:6]), (PLANE, np.zeros((10, 2)))):
        solution = pn.solve(pn.formulate("mlp", X, Y, "relu", gates=gates, beta=0.5))
        assert solution.factors.n_neurons == 0
        assert solution.certificate.gap <= 1e-12
    assert solved(PLANE, np.ones((10, 2)), gates).status is pn.Status.SOLVED
    assert solved(PLANE, np.tile([1.0, 0.0], (10, 1)), gates, loss="softmax").status is pn.Status.SOLVED
    above = solved(PLANE, TARGETS[:10], gates, ratio=2.0)
    assert above.factors.n_neurons == 0


def test_float32_and_whole_numbers() -> None:
    assert solved(PLANE.astype(np.float32), TARGETS[:10].astype(np.float32), "all").status is pn.Status.SOLVED
    whole = np.random.default_rng(1).integers(-3, 4, (12, 2))
    for gates in ("all", 20):
        assert solved(whole, TARGETS[:12], gates).status is pn.Status.SOLVED


def test_gates_on_a_hyperplane_of_the_data() -> None:
    X = np.array([[1.0, 0], [0, 1], [1, 1], [2, 0]])
    on = solved(X, TARGETS[:4], np.array([[0.0, 1.0]]))  # ties are open, and the pattern has an inside
    off = solved(X, TARGETS[:4], np.array([[0.1, 1.0]]))
    assert torch.equal(on.problem.patterns, off.problem.patterns)
    assert on.status is off.status is pn.Status.SOLVED
    assert on.certificate.primal == pytest.approx(off.certificate.primal, rel=2e-5)
    inside = torch.from_numpy(X) @ on.problem.gate_vectors[0]
    assert bool((inside > 0).all())


@pytest.mark.parametrize(
    ("X", "gates", "words"),
    [
        (np.array([[1.0, 0], [-1, 0], [0, 1]]), [[0.0, 1.0]], r"gates: gate 0 .* no inside\. Move the gate"),
        (PLANE, [[1.0, 0.0], [0.0, 0.0]], "gates: gate 1 is zero"),
        (PLANE, [[-PLANE[0, 1], PLANE[0, 0]]], "gates: gate 0 passes so close to a row"),
        (PLANE, [[np.nan, 1.0]], "gates: it contains NaN"),
        (PLANE, np.ones((2, 5)), r"gates: gate vectors need shape \(P, 2\)"),
        (PLANE, np.ones((3, 10), dtype=bool), r"gates: gate vectors need shape \(P, 2\)"),
        (PLANE, "every", "gates: "),
        (PLANE, 0, "gates: at least one"),
        (draw.standard_normal((300, 12)), "all", r"gates: 'all' would enumerate up to .* sample some of them instead"),
        (np.where(np.eye(10, 2) > 0, np.nan, PLANE), "all", "X: it contains NaN"),
        (np.where(np.eye(10, 2) > 0, np.inf, PLANE), 5, "X: it contains infinity"),
        (PLANE * 1e-310, "all", "X, Y, sample_weight: .* rescale"),
    ],
)
def test_refused_by_name(X: np.ndarray, gates: Any, words: str) -> None:
    Y = np.ones((len(X), 2))
    with pytest.raises(ValueError, match=words):
        pn.formulate("mlp", X, Y, "relu", gates=gates if isinstance(gates, (str, int)) else np.asarray(gates))


def test_settings_refused_by_name() -> None:
    for beta in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="beta: "):
            pn.formulate("mlp", PLANE, TARGETS[:10], "relu", gates="all", beta=beta)
    with pytest.raises(ValueError, match=r"gates: 'all' would enumerate up to .* arrangements"):
        pn.formulate("attention", draw.standard_normal((4, 3, 3)), np.ones((4, 2)), "relu", gates="all")
    with pytest.raises(
        ValueError, match=r"gates: 'all' needs a table of rows, and that of block 'attention' .* too large"
    ):
        pn.formulate("attention", np.ones((4, 400, 3)), np.ones((4, 2)), "relu", gates="all")
    with pytest.raises(ValueError, match="gates: 'all' enumerates the arrangements of ReLU"):
        pn.formulate("mlp", PLANE, TARGETS[:10], "gated_relu", gates="all")


def test_estimators() -> None:
    relu = {"activation": "relu", "n_gates": "all", "fit_intercept": False}
    labels = np.arange(10) % 2
    with pytest.raises(ValueError, match="X: 10 samples of 2 features cannot be whitened"):
        pn.ProvenClassifier(**relu, whiten=True).fit(PLANE, labels)
    with pytest.raises(ValueError, match="linearly independent"):
        pn.ProvenClassifier(**relu, whiten=True).fit(np.ones((3, 5)), [0, 1, 0])
    with pytest.raises(ValueError, match="whitening needs a table"):
        pn.ProvenClassifier(block="fnet", whiten=True).fit(np.ones((4, 3, 2)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="y: it has one class only"):
        pn.ProvenClassifier(**relu).fit(PLANE, np.zeros(10))
    with pytest.raises(ValueError, match="enumerate"):
        pn.ProvenRegressor(**relu).fit(draw.standard_normal((200, 10)), np.ones(200))
    for name in ("duplicated rows", "zero rows", "one feature", "rank one"):
        X = DEGENERATE[name]
        model = pn.ProvenRegressor(**relu, beta=0.1).fit(X, TARGETS[: len(X), 0])
        assert model.certificate_.status == "certified"
        assert model.certificate_.scope == "all_arrangements"
    flat = pn.ProvenRegressor(**relu, beta=0.1).fit(PLANE, np.full(10, 3.0))  # a constant target
    assert flat.certificate_.status == "certified"


@pytest.mark.parametrize(
    ("X", "y", "options", "code", "words"),
    [
        (PLANE, np.arange(10) % 2, ["--whiten"], 2, "10 rows of 2 columns cannot be whitened"),
        (np.ones((2, 3)), np.arange(2), ["--whiten", "--task", "classification"], 1, "linearly independent"),
        (PLANE, np.zeros(10, dtype=int), ["--task", "classification"], 1, "one class only"),
        (np.where(np.eye(10, 2) > 0, np.nan, PLANE), np.arange(10) % 2, [], 1, "NaN"),
        (draw.standard_normal((200, 10)), np.arange(200) % 2, [], 1, "sample some of them instead"),
        (PLANE, np.arange(10) % 2, ["--beta", "0"], 2, "positive"),
        (np.repeat(PLANE[:5], 2, axis=0), TARGETS[:10, 0], [], 0, "certified"),
        (np.vstack([PLANE, np.zeros((2, 2))]) * 1e12, TARGETS[:12], [], 0, "certified"),
        (PLANE.astype(np.float32) * np.float32(1e-12), TARGETS[:10, :1], [], 0, "certified"),
        (PLANE, TARGETS[:10, 0], ["--beta", "2max"], 0, "certified"),
        (np.zeros((4, 2)), TARGETS[:4, 0], [], 0, "certified"),
    ],
)
def test_the_command_line(
    X: np.ndarray, y: np.ndarray, options: list[str], code: int, words: str, tmp_path: Path
) -> None:
    data, model = str(tmp_path / "data.npz"), str(tmp_path / "model")
    np.savez(data, X=X, y=y)
    relu = ["--activation", "relu", "--gates", "all", "--no-intercept", "--no-report"]
    answer = CliRunner().invoke(app, ["fit", data, *relu, *options, "-o", model])
    assert answer.exit_code == code, answer.output
    assert words in " ".join(answer.output.replace("│", " ").split())
    if code == 0:
        judged = CliRunner().invoke(app, ["certify", model, data])
        assert judged.exit_code == 0, judged.output
        assert "The certificate holds." in judged.output
