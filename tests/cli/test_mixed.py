"""Tables as people have them, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from provenet.io import load

FAST = ("--gates", 8, "--no-report")
MIXED = ("--impute", "--one-hot", "--drop", "when")


@pytest.fixture
def people(tmp_path, monkeypatch):
    """Rows with gaps, words, truths, dates and numbers of their own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [",id,age,city,smoker,when,income"]
    for k in range(60):
        age, city, smoker = rng.integers(20, 80), ["Rome", "Oslo", "Bern"][k % 3], rng.random() < 0.5
        income = 100 * age + 3000 * (city == "Oslo") + 500 * smoker + rng.normal()
        told = "" if k % 10 == 3 else age, "NA" if k % 15 == 4 else city
        lines.append(
            f"{5 * k + 2},{900 - k},{told[0]},{told[1]},{str(smoker).lower()},2024-03-{k % 28 + 1:02},{income}"
        )
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_all_that_is_wrong_is_told_at_once(run, people):
    answer = run("fit", people, "-t", "income")
    assert answer.code == 1
    for word in ("3 of 5 columns", "'age', line 5: the value is missing", "'Rome' is not a number", "is a date"):
        assert word in answer.err
    assert all(option in answer.err for option in ("--impute", "--one-hot", "--drop"))


def test_from_fit_to_predict(run, people, tmp_path):
    answer = run("fit", people, "-t", "income", *MIXED, *FAST, "-o", "model")
    assert answer.code == 0, answer.err
    assert "4 features ('id', 'age', 'city', 'smoker') → 6 numbers" in answer.out
    assert "column 'id' has another whole number in every row" in answer.err
    assert "--drop id" in answer.err
    assert run("certify", "model", people).code == 0
    told = json.loads((tmp_path / "model" / "model.json").read_text())["source"]["prepared"]
    assert told["categories"] == {"city": ["Bern", "Oslo", "Rome"]}
    (tmp_path / "new.csv").write_text("city,smoker,age,id\nOslo,true,40,1\nParis,false,,2\n,no,33,3\n")
    refused = run("predict", "model", "new.csv")
    assert "is not a number" in refused.err  # true, false and no are no two truths
    (tmp_path / "new.csv").write_text("city,smoker,age,id\nOslo,true,40,850\nParis,false,,860\n,false,33,870\n")
    answer = run("predict", "model", "new.csv")
    assert answer.code == 0, answer.err
    assert "1 of 3 entries are none that training had, and are ignored: 'Paris'" in answer.err
    assert len(answer.out.splitlines()) == 4
    exported = run("export", "model", "--json")
    assert exported.json["columns"] == ["id", "age", "smoker", "city=Bern", "city=Oslo", "city=Rome"]


def test_it_is_worth_it(run, people):
    run("fit", people, "-t", "income", *MIXED, "--drop", "id", *FAST, "-o", "model")
    answer = run(
        "fit", people, "-t", "income", *MIXED, "--drop", "id", "--holdout", 0.25, *FAST, "-o", "held", "--json"
    )
    assert answer.json["test_score"]["value"] > 0.6
    assert run("certify", "held", people).code == 0
    fills = [load(name).saved_.source["prepared"]["fills"]["age"] for name in ("model", "held")]
    assert fills[0] != fills[1]  # rows that are kept from training teach nothing


def test_a_path_and_names_in_reports(run, people, tmp_path):
    assert run("path", people, "-t", "income", *MIXED, "--gates", 4, "--betas", 2, "-o", "path").code == 0
    assert run("fit", people, "-t", "income", *MIXED, "--gates", 4, "-o", "model").code == 0
    assert "city=Oslo" in (tmp_path / "model" / "report.html").read_text()


def test_a_model_has_its_own(run, people):
    run("fit", people, "-t", "income", *MIXED, *FAST, "-o", "model")
    assert run("certify", "model", people, "--one-hot").code == 2
