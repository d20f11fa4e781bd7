"""The other sub-commands, and the command line as a whole."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

import provenet as pn
from provenet.cli import demo_fits as demo_command
from provenet.cli.progress import fraction_done, gap_bar, time_left
from provenet.estimators.telling import watched
from provenet.io import load

COMMANDS = ("demo", "fit", "predict", "certify", "path", "export")


def test_path_writes_its_rows_and_pictures(run, flowers, tmp_path):
    answer = run("path", flowers, "-t", "kind", "--drop", "count", "--gates", 20, "--betas", 4, "--ratio", 0.05)
    assert answer.code == 0, answer.err
    rows = list(csv.DictReader((tmp_path / "path" / "path.csv").open()))
    betas = [float(row["beta"]) for row in rows]
    assert betas == sorted(betas, reverse=True)
    assert betas[-1] == pytest.approx(0.05 * betas[0])
    assert all(float(row["relative_gap"]) <= 1e-3 for row in rows)
    assert int(rows[0]["neurons"]) == 0
    assert json.loads((tmp_path / "path" / "path.json").read_text())["path"][0]["beta"] == betas[0]
    assert "The path in β" in (tmp_path / "path" / "report.html").read_text()
    assert answer.out.count("solved") == 4


def test_path_json_and_failure(run, flowers):
    arguments = ("-t", "kind", "--drop", "count", "--gates", 20, "--betas", 2, "--ratio", 0.05, "--json")
    answer = run("path", flowers, *arguments, "--max-steps", 1, "--tol", 1e-9)
    assert answer.code == 1
    assert [row["status"] for row in answer.json["path"]] == ["solved", "max_steps"]


def test_export(run, model, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    assert run("export", model, "--precision", "float64").code == 0
    estimator = load(model)
    X = np.random.default_rng(0).normal(size=(5, 2))
    (logits,) = onnxruntime.InferenceSession(tmp_path / "flowers.onnx").run(None, {"X": X})
    np.testing.assert_allclose(logits, estimator.decision_function(X), atol=1e-12)
    answer = run("export", model, "-o", "net.onnx", "--json")
    said = {"out": "net.onnx", "precision": "float32", "classes": ["lily", "rose", "tulip"]}
    assert answer.json == said | {"columns": ["width", "length"]}


def test_demo(run, monkeypatch, tmp_path):
    """On fewer digits, to be quick."""
    X, y = demo_command.digits()
    monkeypatch.setattr(demo_command, "digits", lambda: (X[:200], y[:200]))
    answer = run("demo", "--out", "shown", "--json")
    assert answer.code == 0, answer.err
    for result in answer.json["results"]:
        assert result["certificate"]["status"] == "certified"
        assert result["accuracy"] > 0.7
        assert "<html" in (tmp_path / result["report"]).read_text()
        assert load(tmp_path / result["model"]).certificate_.to_dict() == result["certificate"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command):
    answer = run(command, "--help")
    assert answer.code == 0
    assert f"Example: provenet {command}" in answer.out


def test_commands_are_listed(run):
    answer = run("--help")
    assert all(command in answer.out for command in COMMANDS)
    assert "Exit codes: 0 done, 1 not certified or failed, 2 wrong use." in answer.out


def test_version(run):
    answer = run("--version")
    assert (answer.code, answer.out) == (0, f"provenet {pn.__version__}\n")


def test_folders_that_are_no_models(run, flowers, tmp_path):
    (tmp_path / "empty").mkdir()
    for command in ("predict", "certify"):
        assert run(command, "nowhere", flowers).code == 2
        answer = run(command, "empty", flowers)
        assert answer.code == 1
        assert "model.json: it is missing" in answer.err


def test_as_a_process(flowers, tmp_path):
    """The installed command: exit codes, and no traceback for what can be foreseen."""

    def provenet(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from provenet.cli import main; main()", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    done = provenet("fit", str(flowers), "-t", "kind", "--gates", "10", "--no-report", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["certificate"]["status"] == "certified"
    assert done.stderr == ""
    missing = provenet("fit", str(flowers), "-t", "colour")
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")
    assert "Traceback" not in missing.stderr


def test_a_watched_fit_tells_of_the_gap():
    X, y = demo_command.spiral(30)
    estimator, records = pn.ProvenClassifier(n_gates=10, beta=0.1), []
    with watched(estimator, records.append):
        estimator.fit(X, y)
    assert records[0].relative_gap > records[-1].relative_gap
    before = len(records)
    assert estimator.fit(X, y).certificate_.holds(1e-3)
    assert len(records) == before
    with gap_bar(1e-4, quiet=False) as bar:
        for record in records:
            bar.show(record)


def test_the_bar_fills_as_the_gap_falls():
    done = [fraction_done(1.0, gap, 1e-4) for gap in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)]
    np.testing.assert_allclose(done, [0, 0.25, 0.5, 0.75, 1, 1])
    assert fraction_done(1.0, 2.0, 1e-4) == 0


def test_a_search_tells_the_time_left():
    assert time_left(30.0, 0.25) == ", about 90 s left"
    assert time_left(30.0, 0.0) == time_left(30.0, 1.0) == time_left(None, 0.5) == ""
