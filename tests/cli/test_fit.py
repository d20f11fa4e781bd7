"""`provenet fit` and `provenet predict`."""

from __future__ import annotations

import csv
import json
import re
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import provenet as pn
from provenet.cli import app
from provenet.io import load

FAST = ("--gates", 20, "--no-report")


def test_fit_writes_a_model_and_a_report(run, flowers, tmp_path):
    answer = run("fit", flowers, "--target", "kind", "--drop", "count", "--gates", 20, "--out", "flowers")
    assert answer.code == 0
    assert "classification on 60 × 2 data" in answer.out
    assert "certified (relative gap ≤ 0.001 asked)" in answer.out
    assert "flowers/report.html" in answer.out
    names = sorted(path.name for path in (tmp_path / "flowers").iterdir())
    assert names == ["certificate.json", "model.json", "model.safetensors", "report.html"]
    assert "<html" in (tmp_path / "flowers" / "report.html").read_text()
    loaded = load("flowers")
    assert isinstance(loaded, pn.ProvenClassifier)
    assert loaded.classes_.tolist() == ["lily", "rose", "tulip"]
    assert loaded.saved_.source["features"] == ["width", "length"]


def test_json_is_all_there_is_on_stdout(run, flowers):
    answer = run("fit", flowers, "-t", "kind", *FAST, "--json")
    assert answer.code == 0
    told = answer.json
    assert told["task"] == "classification"
    assert told["certificate"]["status"] == "certified"
    assert told["certificate"] == load("model").certificate_.to_dict()
    assert told["beta_search"]["share"] in told["beta_search"]["shares"]
    assert told["report"] is None


def test_linear_networks_have_no_gates_to_tell_of(run, flowers):
    assert run("fit", flowers, "-t", "kind", "--activation", "linear", *FAST, "--json").json["gates"] is None


def test_a_search_says_what_it_tried(run, flowers):
    search = "fit", flowers, "-t", "kind", "--weight", "count", "--no-report", "--cv", 2, "--betas", 2, "--tol", 0.1
    told = run(*search).out
    assert re.search(r"beta chosen on 2 folds, best mean accuracy of linear [\d.]+, relu [\d.]+\n", told)
    assert re.search(r"training accuracy [\d.]+, rows by their weight\n", told)
    candidates = run(*search, "--force", "--json").json["candidates"]
    assert [each["activation"] for each in candidates] == ["linear", "relu"]
    assert all(0 <= each["score"] <= 1 for each in candidates)


def test_options_reach_the_estimator(run, flowers):
    settings = (
        "--beta",
        0.5,
        "--activation",
        "linear",
        "--loss",
        "logistic",
        "--no-intercept",
        "--balanced",
        "--seed",
        3,
    )
    answer = run("fit", flowers, "-t", "kind", "--feature", "length", "--weight", "count", *FAST, *settings)
    assert answer.code == 0, answer.err
    loaded = load("model")
    expected = {
        "beta": 0.5,
        "activation": "linear",
        "loss": "logistic",
        "fit_intercept": False,
        "class_weight": "balanced",
        "random_state": 3,
        "n_gates": 20,
    }
    assert {name: loaded.get_params()[name] for name in expected} == expected
    assert loaded.certificate_.scope == "linear"
    assert loaded.saved_.source["weight"] == "count"


def test_regression_with_several_targets(run, values):
    answer = run("fit", values, "--beta", "0.05max", *FAST, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["task"] == "regression"
    arrays = np.load(values)
    np.testing.assert_array_equal(
        load("model").predict(arrays["X"]),
        pn.ProvenRegressor(beta=answer.json["beta"], gates="gaussian", n_gates=20)
        .fit(arrays["X"], arrays["y"])
        .predict(arrays["X"]),
    )


def test_huber_and_cross_validation(run, flowers):
    answer = run(
        "fit", flowers, "-t", "width", "--drop", "kind", "--loss", "huber", "--delta", 0.5, "--cv", 2, "--betas", 3,
        "--gates", 5, "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    loaded = load("model")
    assert isinstance(loaded, pn.ProvenRegressorCV)
    assert loaded.saved_.statement.loss_settings == {"delta": 0.5}
    assert loaded.beta_ == answer.json["beta"]


def test_a_fit_that_stops_short_says_so_and_fails(run, flowers):
    answer = run("fit", flowers, "-t", "kind", "--drop", "count", *FAST, "--max-steps", 1, "--tol", 1e-9)
    assert answer.code == 1
    assert "max_steps" in answer.err
    assert "not_certified" in answer.out
    assert not load("model").certificate_.holds(1e-9)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-t", "colour"], 2, "there is no column 'colour'; it has 'width', 'length', 'count', 'kind'"),
        ([], 2, "say which column to predict"),
        (["-t", "kind", "--beta", "0"], 2, "positive"),
        (["-t", "kind", "--beta", "lots"], 2, "neither a number"),
        (["-t", "kind", "--tol", "-1"], 2, "positive"),
        (["-t", "kind", "--gates", "0"], 2, "--gates"),
        (["-t", "kind", "--task", "poetry"], 2, "--task"),
        (["-t", "kind", "--loss", "guess"], 2, "unknown"),
        (["-t", "kind", "--solver", "luck"], 2, "choose auto or one of"),
        (["-t", "kind", "--task", "regression"], 1, "column 'kind', line 2: "),
        (["-t", "width"], 1, "column 'kind', line 2: "),
        (["-t", "kind", "--loss", "squared"], 2, "squared is not a loss of classification; choose softmax or logistic"),
        (["-t", "count", "--drop", "kind", "--task", "regression", "--loss", "softmax"], 2, "choose squared or huber"),
        (["-t", "kind", "--drop", "count", "--penalty", "1,3"], 2, "'1,3' is not two norms"),
        (["-t", "kind", "--drop", "count", "--penalty", "1"], 2, "such as 1,2"),
    ],
)
def test_wrong_use(run, flowers, arguments, code, says, tmp_path):
    answer = run("fit", flowers, *arguments)
    assert answer.code == code
    assert says in " ".join(answer.err.replace("│", " ").split())
    assert answer.out == ""
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,y\n1,2,0\n3,,1\n", "column 'b', line 3: the value is missing"),
        ("a,b,y\n1,2,0\n3,1\n", "line 3 has 2 fields"),
        ("a,b,y\n1,2,0\n3,1,0\n", "one class"),
        ("a,b,y\n1,2,rose\n3,1,rose\n", "one class only, 'rose';"),
        ("a,b,y\n", "no rows"),
    ],
)
def test_bad_data_end_in_one_line(run, text, says, tmp_path):
    (tmp_path / "bad.csv").write_text(text)
    answer = run("fit", "bad.csv", "-t", "y", "--task", "classification")
    assert answer.code == 1
    assert says in answer.err
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1


def test_a_missing_extra_ends_in_one_line(run, flowers, monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    answer = run("fit", flowers, "-t", "kind", "--solver", "cvx", *FAST)
    assert answer.code == 1
    assert answer.err == "error: method 'cvx' needs CVXPY and a solver: pip install 'provenet[cvx]'.\n"


def test_folders_of_others_are_refused_before_the_work(run, flowers, tmp_path):
    (tmp_path / "thesis.tex").write_text("words")
    answer = run("fit", flowers, "-t", "kind", "-o", ".")
    assert answer.code == 1
    assert "thesis.tex" in answer.err


def test_predict_prints_labels_and_probabilities(run, model, flowers):
    rows = list(csv.DictReader(run("predict", model, flowers, "--proba").out.splitlines()))
    assert len(rows) == 60
    assert list(rows[0]) == ["prediction", "p(lily)", "p(rose)", "p(tulip)"]
    for row in rows:
        chances = {label: float(row[f"p({label})"]) for label in ("lily", "rose", "tulip")}
        assert sum(chances.values()) == pytest.approx(1)
        assert row["prediction"] == max(chances, key=chances.get)


def test_predict_writes_files_and_json(run, model, flowers, tmp_path):
    answer = run("predict", model, flowers, "--json")
    printed = run("predict", model, flowers).out.splitlines()[1:]
    assert answer.json["prediction"] == printed
    assert run("predict", model, flowers, "-o", "answers.npy").code == 0
    assert np.load(tmp_path / "answers.npy").tolist() == printed
    assert run("predict", model, flowers, "-o", "answers.csv").code == 0
    assert (tmp_path / "answers.csv").read_text().splitlines() == ["prediction", *printed]


def test_predict_finds_its_columns(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("length,width\n0.5,-2\n")
    (tmp_path / "plain.csv").write_text("-2,0.5\n")
    named, plain = run("predict", model, "new.csv"), run("predict", model, "plain.csv")
    assert named.code == plain.code == 0
    assert named.out == plain.out
    (tmp_path / "other.csv").write_text("length,height\n0.5,-2\n")
    answer = run("predict", model, "other.csv")
    assert answer.code == 2
    assert "'width', which the model was fitted with, is missing" in answer.err


def test_samples_of_another_shape_are_wrong_use(run, values, tmp_path):
    assert run("fit", values, *FAST).code == 0
    np.savez(tmp_path / "wide.npz", X=np.ones((4, 5)), y=np.ones((4, 2)))
    for command in ("predict", "certify"):
        answer = run(command, "model", "wide.npz")
        assert answer.code == 2
        assert "its samples have shape (5,), the model was fitted on (3,)" in " ".join(answer.err.split())


def test_regressions_have_no_probabilities(run, values):
    assert run("fit", values, *FAST).code == 0
    assert run("predict", "model", values, "--proba").code == 2
    header = run("predict", "model", values).out.splitlines()[0]
    assert header == "prediction(0),prediction(1)"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--cv", 2, "--beta", 0.1), "--beta"),
        (("--betas", 5), "--betas"),
        (("--delta", 0.5), "--delta"),
        (("--task", "regression", "--balanced"), "--balanced"),
    ],
)
def test_options_that_would_change_nothing_are_refused(run, flowers, tmp_path, options, named):
    answer = run("fit", flowers, "--target", "count", *options, *FAST, "--drop", "kind", "--out", "flowers")
    assert answer.code == 2
    assert named in answer.err
    assert not (tmp_path / "flowers").exists()


def test_gates_by_name(run, flowers):
    arguments = ("fit", flowers, "-t", "kind", "--drop", "count", "--tol", 1e-2, "--no-report", "--json")
    for name in ("between", "trained"):
        answer = run(*arguments, "--gates", name, "--n-gates", 12, "--beta", "0.1max", "--out", name)
        assert answer.code == 0, answer.out
        assert (answer.json["gates"]["found"], answer.json["gates"]["count"]) == (name, 12)
        assert answer.json["gates"]["seconds"] > 0
    assert run(*arguments, "--gates", 12, "--n-gates", 12).code == 2


def test_what_was_read_is_told_and_a_first_row_is_not_lost(run, tmp_path):
    rows = [f"{k % 7},{k % 5},{'ab'[k % 2]}" for k in range(40)]
    (tmp_path / "nohead.csv").write_text("\n".join(rows) + "\n")
    answer = run("fit", "nohead.csv", "-t", -1, *FAST)
    assert "nohead.csv: 40 rows (lines 1 to 40, without names), 2 features ('0', '1'), target '2'" in answer.out
    assert run("fit", "nohead.csv", "-t", -1, *FAST, "--json").json["samples"] == [40, 2]


def test_columns_of_other_sizes_are_told_of(run, tmp_path):
    rows = [f"{1e5 + k % 7},{1e-3 * (k % 5)},{'abc'[k % 3]}" for k in range(40)]
    (tmp_path / "incomes.csv").write_text("income,rate,y\n" + "\n".join(rows) + "\n")
    assert not run("fit", "incomes.csv", "-t", "y", *FAST).err  # they are standardised
    answer = run("fit", "incomes.csv", "-t", "y", "--no-standardize", *FAST)
    assert "feature 'income' goes up to 1e+05, 'rate' to 0.004" in answer.err


def test_a_sheet_is_not_written_as_csv(run, model, flowers):
    answer = run("predict", model, flowers, "--out", "kinds.xlsx")
    assert answer.code == 2
    assert ".xlsx is not written" in answer.err


def test_rows_kept_from_training_give_a_test_score(run, flowers):
    answer = run("fit", flowers, "-t", "kind", "--holdout", 0.25, "--gates", 20, "--json")
    told = answer.json
    assert told["samples"] == [45, 3]
    assert told["test_score"]["name"] == "accuracy"
    assert 0 <= told["test_score"]["value"] <= 1
    with open(told["report"], encoding="utf-8") as page:
        assert "Test accuracy" in page.read()
    certified = run("certify", "model", flowers, "--json").json  # the same rows are found again
    assert certified["holds"]
    assert certified["data_differences"] == []
    spoken = run("fit", flowers, "-t", "kind", "--holdout", 0.25, *FAST).out
    assert "training accuracy" in spoken
    assert "on 15 rows kept from training, test accuracy" in spoken


def test_data_from_standard_input(flowers, tmp_path):
    arguments = ["fit", "-", "-t", "kind", "--gates", "20", "--no-report", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "m")], input=flowers.read_text())
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["samples"] == [60, 3]
    missing = CliRunner().invoke(app, ["fit", "nowhere.csv", "-t", "kind"])
    assert missing.exit_code == 2


def test_beta_by_short_trainings_is_told(run, flowers):
    told = run("fit", flowers, "-t", "kind", "--drop", "count", *FAST)
    assert told.code == 0
    assert "beta chosen from 8 by short trainings on 6 folds in" in told.out
    asked = run("fit", flowers, "-t", "kind", "--drop", "count", *FAST, "--beta", "auto", "--json")
    search = asked.json["beta_search"]
    assert search["share"] in search["shares"]
    assert np.shape(search["losses"]) == (6, len(search["shares"]))
    given = run("fit", flowers, "-t", "kind", "--drop", "count", *FAST, "--beta", "0.02max", "--json")
    assert given.json["beta_search"] is None
    assert given.json["beta"] == pytest.approx(0.02 * given.json["beta_max"])
    wrong = run("fit", flowers, "-t", "kind", "--beta", "automatic")
    assert wrong.code == 2
    assert "or 'auto'" in wrong.err


@pytest.mark.parametrize(
    ("options", "meant"),
    [((), "free"), (("--no-intercept",), False), (("--no-free-intercept",), True), (("--free-intercept",), "free")],
)
def test_an_intercept_is_free_unless_told_otherwise(run, flowers, options, meant):
    assert run("fit", flowers, "-t", "kind", "--beta", "0.1max", *FAST, *options).code == 0
    assert load("model").fit_intercept == meant
