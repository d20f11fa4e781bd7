"""Model folders, ONNX graphs and the command line keep means and scales."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.formulation import pose
from provenet.io import export_onnx, folder, load_model
from provenet.scaling import Scaling

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)) * [1e5, 1e-3, 1.0] + [1e6, 0, 5]
y = 3 * (X[:, 0] / 1e5) + np.abs(X[:, 1]) * 5e3 + 1000


@pytest.fixture
def fitted() -> Any:
    return pn.ProvenRegressor(n_gates=8).fit(X, y)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    head = "income,rate,age,y"
    np.savetxt("table.csv", np.c_[X, y], "%.17g", ",", header=head, comments="")
    return Path("table.csv")


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


def test_saved_and_loaded(fitted: Any, tmp_path: Path) -> None:
    loaded = pn.load(pn.save(fitted, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert isinstance(loaded.network_, pn.nn.Standardised)
    again = loaded.saved_.certify(X, y)
    assert (again.primal, again.standardized) == (pytest.approx(fitted.certificate_.primal, rel=1e-12), True)
    assert json.loads((tmp_path / "model" / "model.json").read_text())["version"] == 3
    once_more = pn.load(pn.save(loaded, tmp_path / "again"))
    np.testing.assert_array_equal(once_more.predict(X), fitted.predict(X))


def test_solutions_and_networks_by_hand(tmp_path: Path) -> None:
    problem = pn.formulate("mlp", X, y, gates=5, beta=1.0, standardize=True)
    solution = pn.solve(problem)
    inner = problem.network(solution.factors)
    for k, model in enumerate((solution, solution.network(), inner)):
        options = {} if model is solution else {"problem": problem}
        saved = pn.load(pn.save(model, tmp_path / str(k), **options))
        torch.testing.assert_close(saved.network(torch.tensor(X)), solution.network()(torch.tensor(X)))
        assert saved.certify(X, y).primal == pytest.approx(solution.certificate.primal, rel=1e-12)


def test_what_is_not_standardised_is_written_as_before(tmp_path: Path) -> None:
    pn.save(pn.ProvenClassifier(n_gates=4, standardize=False).fit(X[:, 2:], y > 1033), tmp_path / "model")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    assert header["version"] == 1
    del header["estimator"]["settings"]["standardize"]  # as folders from before have none
    rewrite(tmp_path / "model", header)
    assert pn.load(tmp_path / "model").standardize is False


def rewrite(path: Path, header: dict[str, Any], **tensors: Any) -> None:
    """A folder whose digests agree, whoever wrote it."""
    old = safetensors.torch.load_file(path / "model.safetensors")
    kept = {name: value for name, value in (old | tensors).items() if value is not None}
    certificate = json.loads((path / "certificate.json").read_text())
    folder.write_folder(path, header, safetensors.torch.save(kept), certificate)


@pytest.mark.parametrize(
    ("says", "tensors"),
    [
        ("a scaling has mean, scale", {"scaling.mean": None}),
        ("found mean, scale, target_mean", {"scaling.target_spread": None}),
        ("scale needs 3 finite numbers", {"scaling.scale": torch.full((3,), torch.inf, dtype=torch.float64)}),
        ("mean needs 3 finite numbers", {"scaling.mean": torch.zeros(4, dtype=torch.float64)}),
        ("spreads of targets zero", {"scaling.target_spread": torch.zeros(1, dtype=torch.float64)}),
        ("means of targets do not go", {"scaling.target_spread": None, "scaling.target_mean": None}),
        (
            "standardized: the model says",
            dict.fromkeys([f"scaling.{k}" for k in ("mean", "scale", "target_mean", "target_spread")]),
        ),
    ],
)
def test_damaged_scales_are_refused(fitted: Any, tmp_path: Path, says: str, tensors: dict[str, Any]) -> None:
    pn.save(fitted, tmp_path / "model")
    rewrite(tmp_path / "model", json.loads((tmp_path / "model" / "model.json").read_text()), **tensors)
    with pytest.raises(ValueError, match=says):
        pn.load(tmp_path / "model")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_onnx_takes_raw_samples(fitted: Any, tmp_path: Path, precision: str) -> None:
    path = export_onnx(fitted.network_, tmp_path / "net.onnx", precision)
    (outputs,) = onnxruntime.InferenceSession(path).run(None, {"X": X.astype(precision)})
    rtol = 1e-12 if precision == "float64" else 1e-4
    np.testing.assert_allclose(outputs[:, 0], fitted.predict(X), rtol=rtol)


def test_onnx_of_images(tmp_path: Path) -> None:
    images = RNG.standard_normal((20, 2, 4, 4)) * np.array([1e3, 1])[:, None, None]
    settings: dict[str, Any] = {"block": "cnn", "n_gates": 4, "beta": 1.0, "standardize": True}
    model = pn.ProvenClassifier(**settings).fit(images, np.arange(20) % 3)
    path = export_onnx(model.network_, tmp_path / "net.onnx", "float64", model.sample_shape_)
    (outputs,) = onnxruntime.InferenceSession(path).run(None, {"X": images})
    np.testing.assert_allclose(outputs, model.decision_function(images), rtol=1e-9, atol=1e-12)


def test_what_float32_cannot_hold_is_not_written(tmp_path: Path) -> None:
    model = pn.ProvenRegressor(n_gates=4).fit(X * 1e300, y)
    with pytest.raises(ValueError, match="beyond float32; export in float64"):
        export_onnx(model.network_, tmp_path / "net.onnx")
    assert not (tmp_path / "net.onnx").exists()


def test_from_the_command_line(table: Path) -> None:
    answer = run("fit", table, "-t", "y", "--gates", 8, "--holdout", 0.2, "-o", "model")
    assert answer.exit_code == 0, answer.output
    assert "standardised; the penalty is on weights of standardised features" in answer.output
    assert "brought to mean zero" in Path("model/report.html").read_text()
    holds = run("certify", "model", table)
    assert holds.exit_code == 0, holds.output
    assert "targets 48 × 1, standardised" in holds.output
    run("predict", "model", table, "--out", "said.npy")
    np.testing.assert_allclose(np.load("said.npy"), pn.load("model").predict(X))
    assert run("export", "model").exit_code == 0
    assert run("path", table, "-t", "y", "--gates", 5, "--betas", 2).exit_code == 0


def test_other_data_and_other_moments_do_not_hold(table: Path) -> None:
    run("fit", table, "-t", "y", "--gates", 8, "-o", "model", "--no-report")
    np.savetxt("other.csv", np.c_[X * 2, y], "%.17g", ",", header="income,rate,age,y", comments="")
    other = run("certify", "model", "other.csv")
    assert other.exit_code == 1
    assert "other data than those of the fit" in other.output
    # a problem of data that were not standardised by their own moments, honestly solved, is not what the folder says
    saved, estimator = load_model("model")
    problem = saved.problem(X, y)
    assert estimator is not None
    assert problem.scaling is not None
    parts = problem.scaling.tensors()
    wrong = Scaling(problem.scaling.axis, **parts | {"scale": parts["scale"] * 3})
    forged = pn.solve(pose(saved.statement, X, y, 8, standardize=wrong))
    pn.save(forged, "forged", source=saved.source)
    answer = run("certify", "forged", table)
    assert answer.exit_code == 1, answer.output
    assert "other means and scales than their own" in answer.output


def test_switched_off(table: Path) -> None:
    answer = run("fit", table, "-t", "y", "--gates", 8, "--no-standardize", "-o", "model", "--no-report")
    assert "feature 'income' goes up to" in answer.output
    assert "Leave --no-standardize out" in answer.output
    assert not isinstance(pn.load("model").network_, pn.nn.Standardised)
    refused = run("fit", table, "-t", "y", "--standardize", "--whiten")
    assert refused.exit_code == 2
