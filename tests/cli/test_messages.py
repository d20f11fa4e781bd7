"""Wrong input ends in a sentence that says what is wrong, where, and what to do; never in another library's words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

ROWS = [f"{k % 7 - 3},{k % 5 - 2},{'rose' if k % 2 else 'lily'}" for k in range(12)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Small files, each with one fault."""
    (tmp_path / "flowers.csv").write_text("\n".join(["a,b,kind", *ROWS]))
    (tmp_path / "one.csv").write_text("\n".join(["a,b,kind", *ROWS]).replace("rose", "lily"))
    (tmp_path / "twice.csv").write_text("\n".join(["a,a,kind", *ROWS]))
    (tmp_path / "utf16.csv").write_text("\n".join(["a,b,kind", *ROWS]), encoding="utf-16")
    (tmp_path / "numbers.csv").write_text("\n".join(["a,b,kind", *(f"{k},{-k},{k / 3}" for k in range(12))]))
    (tmp_path / "gap.csv").write_text("\n".join(["a,b,kind", ",1,rose", *ROWS]))
    (tmp_path / "bare.csv").write_text("\n".join(f"{k},{-k},{k / 3}" for k in range(12)))
    (tmp_path / "file").touch()
    np.savez(tmp_path / "short.npz", X=np.ones((6, 2)), y=np.arange(5))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit", "Missing argument"),
        ("fit one.csv -t kind", "one.csv: the target has one class only, 'lily'"),
        ("fit twice.csv -t kind", "two columns are called 'a'; rename one"),
        ("fit utf16.csv -t kind", "save it as UTF-8"),
        ("fit gap.csv -t kind", "gap.csv: column 'a', line 2: the value is missing; fill it (fit --impute)"),
        ("fit short.npz", "short.npz: X has 6 samples, and y is of shape (5,)"),
        ("fit flowers.csv -t kind -t kind", "column 'kind' is to be predicted; name it once"),
        ("fit flowers.csv -t kind --drop kind", "column 'kind' is to be predicted"),
        ("fit flowers.csv -t kind --task regression", "line 2: 'lily' is not a number; a regression needs"),
        ("fit flowers.csv -t kind --weight a", "flowers.csv: column 'a', line 2: a weight must not be negative"),
        ("fit flowers.csv", "say which column to predict (--target NAME); it has 'a', 'b', 'kind'"),
        ("fit bare.csv -t kind", "there is no column 'kind'; it has '0', '1', '2'. Its first line was read as numbers"),
        ("fit flowers.csv -t kind --tol 2", "a relative gap is below 1"),
        ("fit flowers.csv -t kind --cv 100", "100 folds of 12 rows cannot be made"),
        ("fit flowers.csv -t kind -o file/model", "file/model: nothing can be written there (Not a directory)"),
        ("layerwise flowers.csv", "images are read from an NPZ file, or from a folder"),
        ("bench --only small --who nobody", "nobody: unknown; there are auto, admm"),
    ],
)
def test_what_is_wrong_is_told(run, files: Path, line: str, words: str) -> None:
    answer = run(*line.split())
    assert answer.code in (1, 2)
    told = " ".join(answer.err.replace("│", " ").split())
    assert words in told
    assert "Errno" not in told


def test_what_is_wrong_with_data_for_a_model_is_told(run, files: Path) -> None:
    assert run("fit", "flowers.csv", "-t", "kind", "--gates", 3, "--beta", 1, "--tol", 0.1, "-o", "model").code == 0
    for line, words in (
        ("certify model numbers.csv", "is none of the classes that the model was fitted with, ['lily', 'rose']"),
        ("predict model flowers.csv -o nowhere/p.csv", "nowhere/p.csv: nothing can be written there"),
        ("export model -o nowhere/m.onnx", "nowhere/m.onnx: nothing can be written there"),
        ("predict model gap.csv", "fill it (fit --impute) or drop the row"),
    ):
        answer = run(*line.split())
        assert answer.code == 1
        assert words in answer.err
        assert "Errno" not in answer.err


@pytest.mark.parametrize(
    "line",
    ["fit flowers.csv --targt kind", "fit flowers.csv -t kind --beta -1", "fit nothing.csv", "fit gap.csv -t kind"],
)
def test_a_failure_is_json_too_where_that_was_asked_for(run, files, line):
    answer = run(*line.split(), "--json")
    assert answer.code == answer.json["exit_code"] > 0
    assert answer.json["error"] in " ".join(answer.err.replace("│", "").split())
    assert run(*line.split()).out == ""


def test_whole_numbers_taken_for_classes_are_told(run, files):
    (files / "counts.csv").write_text("\n".join(["a,y", *(f"{k},{k % 3}" for k in range(12))]))
    answer = run("fit", "counts.csv", "-t", "y", "--beta", "1", "--gates", "2")
    assert "3 whole numbers are taken for classes; if they measure: --task regression" in answer.err
    assert "\n2 gates, gaussian" in answer.out


def test_help_has_no_ends_of_lines_but_the_terminal_s(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    said = run("certify", "--help").out
    paragraph = said[said.index("Taken from a model") : said.index("Example:")].strip()
    assert all(len(line.strip()) > 80 for line in paragraph.splitlines()[:-1])


def test_experiments_are_listed_with_room_between_name_and_title(run):
    assert "layerwise-fashion-mnist  Fashion-MNIST in three" in run("reproduce", "list").out


def test_a_score_of_one_row_is_said_not_to_be_one(run, tmp_path: Path) -> None:
    (tmp_path / "row.csv").write_text("a,b,y\n1,2,3\n")
    answer = run("fit", "row.csv", "-t", "y", "--task", "regression", "--gates", 1, "--beta", 1, "-o", "model")
    assert answer.code == 0
    assert "row.csv: 1 row (line 2, with names)" in answer.out
    assert "training R² not defined, of one row" in answer.out
    assert "-0\n" not in answer.out
    assert "sklearn" not in answer.err


def test_what_float32_would_lose_is_told_where_it_is_exported(run, tmp_path: Path) -> None:
    rows = [f"{k % 7},{1e9 + k % 5},{k % 3}" for k in range(12)]
    (tmp_path / "far.csv").write_text("\n".join(["near,far,y", *rows]))
    assert run("fit", "far.csv", "-t", "y", "--gates", 2, "--beta", 1, "--tol", 0.1, "-o", "model").code == 0
    assert "feature 'far' varies so little for its size that float32 loses" in run("export", "model").err
    assert "float32" not in run("export", "model", "--precision", "float64").err
