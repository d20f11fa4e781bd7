"""Other norms than weight decay's on the command line: asked for, saved, named, certified, refused."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from provenet.io import load

FAST = ("--gates", 8, "--drop", "count")


def test_the_norms_go_all_the_way(run, flowers, tmp_path):
    fitted = run("fit", flowers, "-t", "kind", *FAST, "--penalty", "1,2", "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["certificate"]["penalty"] == [1, 2]
    assert "‖u‖₁² + ‖v‖₂²" in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    loaded = load("model")
    assert tuple(loaded.penalty) == loaded.saved_.statement.penalty == loaded.certificate_.penalty == (1, 2)
    assert bool(((loaded.network_.first != 0).sum(1) == 1).all())  # C = 1: a neuron reads one column
    certified = run("certify", "model", flowers)
    assert certified.code == 0, certified.err
    assert "½(‖u‖₁² + ‖v‖₂²)" in certified.out
    assert run("certify", "model", flowers, "--json").json["independent_relative_gap"] <= 1e-3
    assert run("predict", "model", flowers).code == 0


def test_infinity_and_cross_validation(run, flowers):
    options = ("--penalty", "inf,1", "--cv", 2, "--betas", 3, "--no-report")
    fitted = run("fit", flowers, "-t", "kind", *FAST, *options, "--json")
    assert fitted.code == 0, fitted.err
    assert fitted.json["certificate"]["penalty"] == ["inf", 1]
    assert tuple(load("model").penalty) == (math.inf, 1)
    assert run("certify", "model", flowers).code == 0


def test_a_path(run, flowers, tmp_path):
    answer = run("path", flowers, "-t", "kind", *FAST, "--penalty", "1,1", "--betas", 3, "--ratio", 0.1)
    assert answer.code == 0, answer.err
    plain = run("path", flowers, "-t", "kind", *FAST, "--betas", 3, "--ratio", 0.1, "-o", "plain")
    assert plain.code == 0
    first, other = (list(csv.DictReader((tmp_path / name / "path.csv").open())) for name in ("path", "plain"))
    assert float(first[0]["beta"]) != float(other[0]["beta"])  # another β_max
    assert "‖u‖₁² + ‖v‖₁²" in (tmp_path / "path" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--penalty", "1,2", "--block", "fnet", "--tokens", 2], "'mlp' and 'cnn'"),
        (["--penalty", "1,inf", "--activation", "relu"], "penalty: (1, inf)"),
        (["--penalty", "inf,inf"], "NP-hard"),
    ],
)
def test_what_cannot_be_judged_is_wrong_use(run, options, says):
    draw = np.random.default_rng(0)
    np.savez("wide.npz", X=draw.normal(size=(30, 20)), y=draw.normal(size=(30, 18)))
    answer = run("fit", "wide.npz", *options)
    assert answer.code == 2
    told = " ".join(answer.err.replace("│", " ").split())
    assert "--penalty" in told
    assert says in told
