"""A free intercept all the way: estimators, searches, files, graphs, foreign networks, words."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.io import export_onnx
from provenet.proofs.independent import second_opinion

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
LABELS = np.array(["a", "b", "c"])[(X[:, 0] > 0.8).astype(int) + (X[:, 1] > 0.8)]
Y = 50 + X[:, 0] + 0.1 * RNG.standard_normal(30)
SMALL: dict[str, Any] = {"n_gates": 4, "fit_intercept": "free"}


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_classifiers(loss: str, tmp_path: Path) -> None:
    model = pn.ProvenClassifier(beta=0.5, loss=loss, **SMALL).fit(X, LABELS)
    network = model.network_
    assert network.bias.shape == (3,)
    assert network.network.fit_intercept, "hidden units keep their biases"
    assert "network.bias" in network.state_dict()
    assert model.certificate_.relative_gap <= 1e-3
    if loss == "softmax":
        shares = model.predict_proba(X).mean(0)
        np.testing.assert_allclose(shares, [(k == LABELS).mean() for k in "abc"], atol=1e-9)
    pn.save(model, tmp_path / "model")
    again = pn.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.saved_.statement.free_intercept
    assert json.loads((tmp_path / "model/model.json").read_text())["version"] == 3  # of standardised data
    targets = model.solution_.problem.loss.target.numpy()
    assert again.saved_.certify(X, targets).primal == pytest.approx(model.certificate_.primal, rel=1e-12)


def test_regressor_and_search() -> None:
    model = pn.ProvenRegressorCV(betas=4, cv=3, **SMALL).fit(X, Y)
    assert model.score(X, Y) > 0.9
    strong = pn.ProvenRegressor(beta=1e6, **SMALL).fit(X, Y)
    np.testing.assert_allclose(strong.predict(X), Y.mean(), rtol=1e-12)
    assert strong.dual_gap_ == pytest.approx(0, abs=1e-9)


def test_every_block_takes_it() -> None:
    tokens = RNG.standard_normal((12, 4, 3))
    model = pn.ProvenRegressor(block="fnet", beta=1.0, readout="tokens", **SMALL)
    model.fit(tokens, 5 + tokens[..., 0])
    assert model.network_.bias.shape == (1,)
    assert float(model.network_.bias) > 4


def test_a_mask_and_tokens() -> None:
    tokens, mask = RNG.standard_normal((10, 4, 2)), RNG.random((10, 4)) > 0.3
    mask[:, 0] = True
    problem = pn.formulate(
        "attention", tokens, 7 + tokens[..., :1], gates=3, beta=0.5, readout="tokens", mask=mask, fit_intercept="free"
    )
    solution = pn.solve(problem, tol=1e-5)
    network = solution.network()
    out = network(problem.X, problem.mask)
    assert not bool(out[~problem.mask].any())
    assert float(out[problem.mask].mean()) == pytest.approx(float(problem.loss.target[problem.mask].mean()), rel=1e-9)
    verdict = second_opinion(problem, network, theta=solution.certificate.theta)
    assert verdict.relative_gap <= 2e-5
    found = pn.certify(network, (tokens, problem.loss.target, mask), loss="squared", beta=0.5)
    assert found.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
    assert found.relative_gap <= 2e-5


def test_certify_takes_the_networks_own_bias() -> None:
    problem = pn.formulate("mlp", X, Y, gates=4, beta=0.5, fit_intercept="free")
    network = pn.solve(problem).network()
    best = pn.certify(problem, network)
    worse = copy.deepcopy(network)
    worse.bias.data += 1.0
    moved = pn.certify(problem, worse)
    assert moved.primal == pytest.approx(best.primal + 0.5 * len(X), rel=1e-9)
    assert moved.dual == pytest.approx(best.dual, rel=1e-9), "the bound is of the neurons, at the best b"
    assert second_opinion(problem, worse).primal == pytest.approx(moved.primal, rel=1e-12)
    alone = pn.certify(network, X, Y, loss="squared", beta=0.5)
    assert alone.primal == pytest.approx(best.primal, rel=1e-12)
    assert alone.relative_gap < 1e-3
    penalised = pn.formulate("mlp", X, Y, gates=problem.gate_vectors, beta=0.5, fit_intercept=True)
    with pytest.raises(ValueError, match="fit_intercept='free'"):
        pn.certify(penalised, network)
    worse.bias = torch.nn.Parameter(torch.full((1,), torch.nan).double())
    with pytest.raises(ValueError, match="bias needs 1 finite"):
        pn.certify(problem, worse)
    worse.bias = None
    assert pn.certify(problem, worse).primal > 1e3, "no bias is a bias of zero"


def test_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = pn.ProvenClassifier(beta=0.5, **SMALL).fit(X, LABELS)
    path = export_onnx(model.network_, tmp_path / "net.onnx", "float64")
    (found,) = runtime.InferenceSession(str(path)).run(None, {"X": X})
    np.testing.assert_allclose(found, model.network_(torch.tensor(X)).detach().numpy(), rtol=1e-12)


def test_command_line(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = "\n".join(",".join(map(str, row)) + f",{label}" for row, label in zip(X, LABELS, strict=True))
    table.write_text("u,v,w,kind\n" + rows + "\n")
    out = tmp_path / "model"
    asked = ("fit", table, "--target", "kind", "--beta", "0.1max", "--gates", "4", "--out", out)
    fitted = run(*asked, "--free-intercept")
    assert fitted.exit_code == 0, fitted.output
    assert "without penalty" in (out / "report.html").read_text()
    assert run("certify", out, table).exit_code == 0
    assert run(*asked, "--free-intercept", "--no-intercept").exit_code == 2


def test_damaged_and_older_folders(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from provenet.io import folder as files

    model = pn.ProvenRegressor(beta=0.5, **SMALL).fit(X, Y)
    pn.save(model, tmp_path)
    tensors, header = load_file(tmp_path / files.TENSORS), json.loads((tmp_path / files.MODEL).read_text())

    claimed = json.loads((tmp_path / files.CERTIFICATE).read_text())

    def written(**changed: Any) -> None:
        save_file({**tensors, **changed}, tmp_path / files.TENSORS)
        (tmp_path / files.CERTIFICATE).write_text(json.dumps(claimed))
        for name in (files.TENSORS, files.CERTIFICATE):
            header["files"][name] = files._sha256((tmp_path / name).read_bytes())
        header["digest"] = files._digest(header)
        (tmp_path / files.MODEL).write_text(json.dumps(header))

    for bias, match in ((torch.zeros(2), "bias has shape"), (torch.tensor([torch.nan]), "not finite")):
        written(bias=bias.double())
        with pytest.raises(ValueError, match=match):
            pn.load(tmp_path)
    del header["problem"]["free_intercept"]  # as folders had it before
    written()
    with pytest.raises(ValueError, match="no free intercept"):
        pn.load(tmp_path)
    del tensors["bias"]
    header["version"] = 1
    written()
    with pytest.raises(ValueError, match="free_intercept: the model has False, its certificate True"):
        pn.load(tmp_path)
    del claimed["free_intercept"]
    written()
    assert not pn.load(tmp_path).saved_.statement.free_intercept


def test_a_certificate_says_whether_the_intercept_is_free(tmp_path: Path) -> None:
    from provenet.io import folder as files

    for setting, free in (("free", True), (True, False)):
        model = pn.ProvenRegressor(beta=0.5, n_gates=4, fit_intercept=setting).fit(X, Y)
        assert model.certificate_.free_intercept is free
        assert ("intercept" in str(model.certificate_)) is free
        pn.save(model, tmp_path / str(free))
        assert json.loads((tmp_path / str(free) / files.CERTIFICATE).read_text())["free_intercept"] is free
        assert pn.load(tmp_path / str(free)).certificate_.free_intercept is free


@pytest.mark.parametrize(
    ("match", "settings"),
    [
        ("'loose' is unknown", {"fit_intercept": "loose"}),
        ("says so itself", {"fit_intercept": True, "block": pn.MLP()}),
    ],
)
def test_words(match: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=match):
        pn.formulate(**({"block": "mlp", "X": X, "Y": Y} | settings))


def test_methods_that_take_samples_apart_say_so() -> None:
    problem = pn.formulate("mlp", X[:, :1], Y, "relu", "all", beta=0.5, fit_intercept="free")
    with pytest.raises(ValueError, match="free intercept"):
        pn.solve(problem, "closed_form")


def test_path_and_warm_start() -> None:
    problem = pn.formulate("mlp", X, Y, gates=4, beta=1.0, fit_intercept="free")
    first = pn.solve(problem, tol=1e-4)
    second = pn.solve(problem.with_beta(0.9), tol=1e-4, start=first.network())
    assert second.certificate.relative_gap <= 1e-4
    top = pn.solve(problem.with_beta(problem.beta_max * (1 + 1e-9)), tol=1e-9)
    assert top.factors.n_neurons == 0
    assert top.certificate.primal == pytest.approx(0.5 * ((Y - Y.mean()) ** 2).sum(), rel=1e-12)
    below = pn.solve(problem.with_beta(problem.beta_max * 0.99), tol=1e-9)
    assert below.factors.n_neurons > 0
