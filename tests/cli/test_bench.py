"""`provenet bench` on scikit-learn's tables, cut small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

import provenet as pn
from provenet.bench import Table, bundled
from provenet.bench import entrants as e
from provenet.bench import tables as t
from provenet.bench.speed import Case, cases, problems


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty rows of each table, quick settings for ours, and stand-ins for the others."""

    def cut() -> Iterator[Table]:
        for table in bundled():
            if table.name in ("breast_cancer", "diabetes"):
                yield Table(table.name, table.X[:40, :4], table.y[:40], table.task)

    quick = {"n_gates": 4, "tol": 1e-2}
    monkeypatch.setattr(t, "bundled", cut)
    for name in e.CLASSIFIERS:
        monkeypatch.setitem(e.CLASSIFIERS, name, lambda seed: DummyClassifier())
    for name in e.REGRESSORS:
        monkeypatch.setitem(e.REGRESSORS, name, lambda seed: DummyRegressor())
    monkeypatch.setitem(e.CLASSIFIERS, "ProvenClassifier()", lambda seed: pn.ProvenClassifier(**quick))
    monkeypatch.setitem(e.REGRESSORS, "ProvenRegressorCV()", lambda seed: pn.ProvenRegressorCV(betas=3, cv=2, **quick))


@pytest.mark.usefixtures("small")
def test_results_page_and_pictures(run, tmp_path) -> None:
    answer = run("bench", "--only", "accuracy", "--splits", 2)
    assert answer.code == 0, answer.err
    assert "ProvenClassifier() against MLPClassifier()" in answer.out
    page = (tmp_path / "bench" / "tables.md").read_text()
    assert "| breast_cancer | 2 |" in page
    assert "| diabetes | 2 |" in page
    assert {"classification.png", "regression.png", "results.jsonl", "tables.md"} == {
        file.name for file in (tmp_path / "bench").iterdir()
    }
    before = (tmp_path / "bench" / "results.jsonl").read_text()
    told = run(
        "bench", "--only", "accuracy", "--json", "--splits", 2, "--table", "diabetes"
    ).json  # all is there already
    assert told["complete"]
    assert told["results"][0]["tables"] == ["diabetes"]
    assert (tmp_path / "bench" / "results.jsonl").read_text() == before


@pytest.mark.usefixtures("small")
def test_who_has_fewer_results_is_on_a_page_of_its_own(run, tmp_path) -> None:
    """The searches take longest: what the others have results of is not thrown away for them."""
    run("bench", "--only", "accuracy", "--splits", 2, "--table", "breast_cancer")
    file = tmp_path / "bench" / "results.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not ('"split": 1' in line and "CV()" in line)))
    assert (
        run("bench", "--only", "accuracy", "--splits", 2, "--table", "breast_cancer", "--max-seconds", 1e-9).code == 1
    )
    first, both = (tmp_path / "bench" / "tables.md").read_text().split("splits that everyone has results of")
    assert "| breast_cancer | 2 |" in first
    assert "ProvenClassifierCV()" not in first
    assert "| breast_cancer | 1 |" in both
    assert "ProvenClassifierCV() against MLPClassifier grid" in both
    assert (tmp_path / "bench" / "classification-all.png").is_file()


@pytest.mark.usefixtures("small")
def test_a_run_that_ends_early_says_so(run) -> None:
    answer = run("bench", "--only", "accuracy", "--max-seconds", 1e-9)
    assert answer.code == 1
    assert "the same command goes on" in answer.err


def test_programs_on_the_command_line(run, tmp_path, monkeypatch) -> None:
    tiny = Case("tiny", lambda _: problems.teacher(40, 3, 6, 0.1), (), (1e-2,))
    monkeypatch.setattr(cases, "SMALL", (tiny, replace(tiny, name="another")))
    answer = run("bench", "--only", "small", "--table", "tiny", "--who", "auto", "--who", "admm")
    assert answer.code == 0, answer.err
    assert "| tiny | auto |" in answer.out
    assert {"small.jsonl", "small.md", "small.png"} == {file.name for file in (tmp_path / "bench").iterdir()}
    told = run("bench", "--only", "small", "--table", "tiny", "--who", "auto", "--json").json
    assert {trial["case"] for trial in told["results"][0]["trials"]} == {"tiny"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--only", "speed"], 2, "speed"),
        (["--data", "nowhere"], 1, "CameronDiao"),
        (["--table", "chairs"], 2, "chairs"),
        (["--splits", 0], 2, "--splits"),
        (["--only", "small", "--table", "chairs"], 2, "chairs"),
        (["--only", "size", "--images", "nowhere"], 2, "nowhere"),
    ],
)
def test_wrong_use(run, arguments, code, said) -> None:
    answer = run("bench", *(["--only", "accuracy"] if "--only" not in arguments else []), *arguments)
    assert answer.code == code
    assert said in answer.err
