"""ReLU on the command line and in model folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((18, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n" + "\n".join(f"{a},{b},{label}" for (a, b), label in zip(X, y, strict=True)))
    return path


def test_fit_predict_certify_export(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    options = ("--activation", "relu", "--gates", "all", "--no-intercept", "--json")
    fitted = run("fit", table, "-t", "y", "-o", out, *options)
    assert fitted.exit_code == 0, fitted.output
    told = json.loads(fitted.stdout)["certificate"]
    assert (told["scope"], told["status"]) == ("all_arrangements", "certified")
    assert "No two-layer ReLU network of any width" in (out / "report.html").read_text(encoding="utf-8")
    judged = run("certify", out, table, "--json")
    assert judged.exit_code == 0, judged.output
    assert json.loads(judged.stdout)["independent_relative_gap"] <= 1e-3
    assert run("predict", out, table).exit_code == 0
    model = pn.load(out)
    assert model.network_.activation == "relu"
    assert model.saved_.statement.complete


def test_sampled_patterns_have_their_own_scope(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    fitted = run("fit", table, "-t", "y", "--activation", "relu", "--gates", "8", "-o", out, "--no-report", "--json")
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout)["certificate"]["scope"] == "fixed_gates"
    assert run("certify", out, table).exit_code == 0


def test_wrong_use_is_told(table: Path) -> None:
    for gates in ("none", "0", "-3", "1.5"):
        assert run("fit", table, "-t", "y", "--gates", gates).exit_code == 2
    refused = run("fit", table, "-t", "y", "--gates", "all")
    assert refused.exit_code == 2
    for solver, options in (("cutting_plane", ()), ("apg", ("--activation", "relu"))):
        refused = run("fit", table, "-t", "y", "--solver", solver, *options)
        assert refused.exit_code == 2
        assert f"'{solver}' cannot take this problem" in refused.output


def test_a_folder_that_claims_a_wider_scope_is_refused(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    run("fit", table, "-t", "y", "--activation", "relu", "--gates", "8", "-o", out, "--no-report")
    model = json.loads((out / "model.json").read_text(encoding="utf-8"))
    assert model["problem"]["complete"] is False
    proof = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    proof["scope"] = "all_arrangements"
    (out / "certificate.json").write_text(json.dumps(proof), encoding="utf-8")
    with pytest.raises(ValueError):
        pn.load(out)


def test_whitening_goes_with_the_model(table: Path, tmp_path: Path) -> None:
    assert run("fit", table, "-t", "y", "--whiten").exit_code == 2  # 18 rows of two columns
    draw = np.random.default_rng(1)
    wide = tmp_path / "wide.npz"
    np.savez(wide, X=draw.standard_normal((6, 9)), y=np.arange(6) % 2)
    out = tmp_path / "white"
    fitted = run("fit", wide, "--whiten", "--gates", "6", "--task", "classification", "-o", out)
    assert fitted.exit_code == 0, fitted.output
    assert run("certify", out, wide).exit_code == 0
    assert run("export", out).exit_code == 1
    chosen = run(
        "fit", wide, "--whiten", "--cv", "2", "--betas", "3", "--gates", "6", "--no-report", "-o", out, "--json"
    )
    assert chosen.exit_code == 0, chosen.output
    assert run("certify", out, wide).exit_code == 0
    assert pn.load(out).whiten


def test_a_rougher_second_opinion_denies_nothing(tmp_path: Path) -> None:
    """Several outputs in four dimensions: the independent checker has a bound, not the number; here it is enough."""
    draw = np.random.default_rng(0)
    data, out = tmp_path / "data.npz", tmp_path / "model"
    np.savez(data, X=draw.standard_normal((15, 4)), y=np.arange(15) % 3)
    options = ("--activation", "relu", "--gates", "10", "--beta", "0.2max", "--no-intercept", "--no-report")
    assert run("fit", data, *options, "-o", out).exit_code == 0
    judged = run("certify", out, data, "--json")
    assert judged.exit_code == 0, judged.output
    told = json.loads(judged.stdout)
    assert told["holds"] is True
    assert told["independent_bound_is_exact"] is False
    assert told["independent_relative_gap"] <= told["certificate"]["tol"]
    assert "neither confirms nor denies" not in run("certify", out, data).output
