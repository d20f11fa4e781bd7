"""`provenet certify`: holds for the model and its data, and for nothing else."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

import provenet as pn
from provenet.cli.subject import contradicted
from provenet.gauges import BoundKind
from provenet.io import load, save
from provenet.statement import Scope


def test_a_certificate_comes_back(run, model, flowers):
    answer = run("certify", model, flowers)
    assert answer.code == 0
    assert "The certificate holds." in answer.out
    told = run("certify", model, flowers, "--json").json
    saved = load(model).certificate_
    assert told["holds"] is True
    assert told["data_differences"] == []
    assert told["certificate"]["primal"] == pytest.approx(saved.primal, rel=1e-12)
    assert told["certificate"]["relative_gap"] == pytest.approx(saved.relative_gap, rel=1e-6)
    assert told["independent_relative_gap"] == pytest.approx(saved.relative_gap, rel=1e-6)


def test_it_says_what_was_certified(run, model, flowers):
    saved = load(model).saved_
    told = run("certify", model, flowers)
    for word in ("mlp, gated_relu", "20, gaussian", "softmax", f"{saved.statement.beta:.9g}", "60 × 2", "60 × 3"):
        assert word in told.out
    assert saved.data["samples_sha256"][:16] in told.out
    about = run("certify", model, flowers, "--json").json["certified"]
    assert (about["loss"], about["penalty"], about["gates"]) == ("softmax", [2, 2], 20)
    assert about["fitted_on"]["targets"] == saved.data["targets_sha256"]
    assert "Taken from a model folder: what is minimised" in " ".join(run("certify", "--help").out.split())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: replace(c, primal=c.primal * 0.9, dual=c.dual * 0.9), "says that the objective is"),
        (lambda c: replace(c, dual=c.dual + 0.9 * c.gap + 0.2 * c.tol * c.primal), "claims a lower bound of"),
    ],
)
def test_a_forged_certificate_is_contradicted(run, model, flowers, change, says):
    """All digests are right, and it agrees with itself."""
    estimator = load(model)
    saved = replace(estimator.saved_, certificate=change(estimator.certificate_))
    estimator.saved_ = saved
    save(estimator, model)
    answer = run("certify", model, flowers)
    assert answer.code == 1
    assert says in answer.err
    assert run("certify", model, flowers, "--json").json["contradictions"]


def test_a_claim_is_contradicted():
    """A certificate that holds against one that does not."""
    claimed = pn.Certificate(1.0, 0.99995, 1.0, 1.0, Scope.LINEAR, BoundKind.EXACT, 1e-4)
    assert contradicted(claimed, claimed) == []
    assert contradicted(claimed, replace(claimed, dual=0.99991)) == [
        "it claims a lower bound of 0.99995, of which 0.99991 can be proven"
    ]
    assert len(contradicted(claimed, replace(claimed, dual=0.9))) == 2


def test_a_tolerance_too_tight_fails(run, model, flowers):
    answer = run("certify", model, flowers, "--tol", 1e-12)
    assert answer.code == 1
    assert "does NOT hold" in answer.out


def test_weights_and_class_weights_are_part_of_the_problem(run, flowers):
    fit = run("fit", flowers, "-t", "kind", "--weight", "count", "--balanced", "--gates", 20, "--no-report")
    assert fit.code == 0
    told = run("certify", "model", flowers, "--json")
    assert told.code == 0
    assert told.json["data_differences"] == []


@pytest.mark.parametrize("column", ["width", "kind"])
def test_other_data_are_told_and_do_not_pass(run, model, flowers, column, tmp_path):
    rows = list(csv.DictReader(flowers.open()))
    for row in rows[:20]:
        row[column] = "9" if column == "width" else "lily"
    with (tmp_path / "other.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    answer = run("certify", model, "other.csv")
    assert answer.code == 1
    assert "other data" in answer.err
    (difference,) = run("certify", model, "other.csv", "--json").json["data_differences"]
    assert ("samples" if column == "width" else "targets") in difference


def test_other_classes_are_refused(run, model, flowers, tmp_path):
    text = flowers.read_text().replace("tulip", "poppy")
    (tmp_path / "other.csv").write_text(text)
    answer = run("certify", model, "other.csv")
    assert answer.code == 1
    assert "poppy" in answer.err


def test_an_edited_model_is_refused(run, model, flowers):
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    answer = run("certify", model, flowers)
    assert answer.code == 1
    assert "model.safetensors" in answer.err
    assert answer.out == ""


def test_a_solution_saved_in_python(run, values):
    import numpy as np

    arrays = np.load(values)
    problem = pn.formulate("mlp", arrays["X"], arrays["y"], gates=15, beta=0.1)
    solution = pn.solve(problem, tol=1e-5)
    save(solution, "solution")
    assert run("certify", "solution", values).code == 0
    network = solution.network()
    network.second.data *= 1.01
    save(network, "scaled", problem=problem)
    assert run("certify", "scaled", values, "--tol", 1e-5).code == 1


def test_columns_must_be_known(run, flowers, values):
    import numpy as np

    arrays = np.load(values)
    save(pn.ProvenRegressor(n_gates=5, beta=1.0).fit(arrays["X"], arrays["y"]), "fitted")
    assert run("certify", "fitted", values).code == 0
    answer = run("certify", "fitted", flowers)
    assert answer.code == 2
    assert "does not know its columns" in answer.err
