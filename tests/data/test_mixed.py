"""Columns of numbers, words, truths and gaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from provenet.data.cells import as_numbers, is_date, like_identifiers
from provenet.data.loading import Columns, load_dataset
from provenet.data.mixed import Asked, Preparation
from provenet.data.table import Table, read_table

BOTH = Asked(impute=True, one_hot=True)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = tmp_path / "people.csv"
    path.write_text("age,city,smoker\n30,Rome,yes\n,Oslo,no\n50,,no\n41,Oslo,yes\n7,Bern,no\n")
    return read_table(path)


def fitted(table: Table, asked: Asked = BOTH, rows: Any = slice(None)) -> Preparation:
    return Preparation.fit(table, list(table.columns), asked, np.arange(table.n_rows)[rows])


def test_as_scikit_learn_does(table: Table) -> None:
    prepared = fitted(table)
    X, notes = prepared.apply(table)
    age = np.array([[30], [np.nan], [50], [41], [7]])
    city = np.array([["Rome"], ["Oslo"], ["Oslo"], ["Oslo"], ["Bern"]])  # the gap is filled with the most frequent
    encoded = OneHotEncoder(sparse_output=False).fit_transform(city)
    smoker = [[1], [0], [0], [1], [0]]
    np.testing.assert_array_equal(X, np.hstack([SimpleImputer(strategy="median").fit_transform(age), smoker, encoded]))
    assert prepared.names == ["age", "smoker", "city=Bern", "city=Oslo", "city=Rome"]
    assert not notes


def test_json_is_all_that_is_kept(table: Table, tmp_path: Path) -> None:
    prepared = fitted(table)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    (tmp_path / "new.csv").write_text("city,age,smoker\nParis,,no\n,80,yes\nBern,2,no\n")
    new = read_table(tmp_path / "new.csv")
    X, notes = again.apply(new)
    np.testing.assert_array_equal(X, prepared.apply(new)[0])
    np.testing.assert_array_equal(X, [[35.5, 0, 0, 0, 0], [80, 1, 0, 1, 0], [2, 0, 1, 0, 0]])
    assert notes == ["column 'city': 1 of 3 entries are none that training had, and are ignored: 'Paris'."]


def test_only_what_was_trained_on_is_learnt(table: Table) -> None:
    prepared = fitted(table, rows=slice(0, 3))
    assert prepared.categories == {"city": ("Oslo", "Rome")}
    assert prepared.fills is not None
    assert prepared.fills["age"] == 40
    assert len(prepared.apply(table)[1]) == 1  # Bern


def test_one_without_the_other(table: Table, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'city', line 2: 'Rome' is not a number; make .*--one-hot"):
        fitted(table, Asked(impute=True))
    with pytest.raises(ValueError, match=r"'age', line 3: the value is missing; fill it \(fit --impute\)"):
        fitted(table, Asked(one_hot=True))
    (tmp_path / "gap.csv").write_text("a,b\nx,1\n,2\n")
    with pytest.raises(ValueError, match=r"'a', line 3: the value is missing; fill it \(fit --impute\)"):
        fitted(read_table(tmp_path / "gap.csv"), Asked(one_hot=True))


def test_columns_without_a_value_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("a,b\n1,\n2,\n")
    with pytest.raises(ValueError, match="column 'b' has no value to learn from"):
        fitted(read_table(tmp_path / "empty.csv"))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_columns_of_other_files(missing: Any, tmp_path: Path) -> None:
    columns = {
        "a": np.array([1.0, np.nan, 3.0]),
        "b": np.array([True, missing, False], dtype=object),
        "c": np.array(["x", missing, "y"], dtype=object),
    }
    X, _ = fitted(Table(tmp_path, columns, np.arange(3), "row")).apply(Table(tmp_path, columns, np.arange(3), "row"))
    np.testing.assert_array_equal(X, [[1, 1, 1, 0], [2, 0.5, 1, 0], [3, 0, 0, 1]])


@pytest.mark.parametrize("name", ["numbers", "words", "fills", "categories"])
@pytest.mark.parametrize("wrong", [None, 3, [], {}, {"city": [1]}, "x", {"age": "old", "smoker": 1, "city": "Rome"}])
def test_what_was_never_written_is_refused(table: Table, name: str, wrong: Any) -> None:
    told = fitted(table).to_dict()
    if (name, wrong) in [("fills", None), ("numbers", []), ("words", [])]:
        return  # another preparation, that there could be
    with pytest.raises(ValueError, match=r"source: what was done to columns"):
        Preparation.from_dict(told | {name: wrong})


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("2024-01-31", True),
        ("2024-01-31 10:00", True),
        ("2024-01-31T10:00:00.5Z", True),
        ("12", False),
        ("31.1.24", False),
    ],
)
def test_dates(text: str, yes: bool) -> None:
    assert is_date(text) == yes


def test_a_date_is_told_of_as_one(tmp_path: Path) -> None:
    (tmp_path / "dated.csv").write_text("when,y\n2024-01-31,1\n2024-02-01,2\n")
    for asked in (Asked(), BOTH):
        with pytest.raises(ValueError, match=r"'when', line 2: '2024-01-31' is a date; make numbers of it .*--drop"):
            load_dataset(tmp_path / "dated.csv", Columns(["y"]), asked=asked)


def test_truths_are_numbers() -> None:
    assert as_numbers(["True", "FALSE "]).tolist() == [1, 0]  # type: ignore[union-attr]
    assert as_numbers(["yes", "no"]).tolist() == [1, 0]  # type: ignore[union-attr]
    assert as_numbers(["yes", "true"]) is None
    assert as_numbers(["yes", "1"]) is None


def test_identifiers() -> None:
    count = np.arange(30)
    assert like_identifiers(count[::-1]) == "whole number"
    assert like_identifiers(np.array([f"k{i}" for i in count], dtype=object)) == "text"
    assert not like_identifiers(count / 3)
    assert not like_identifiers(count % 20)
    assert not like_identifiers(count[:10])  # few rows may well differ


@pytest.mark.parametrize("first", ["Mazda,1,2\nFiat,3,4\n", "7,1,2\n3,3,4\n", "0,1,2\n1,3,4\n"])
def test_a_first_column_without_a_name_is_the_name_of_a_row(first: str, tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text(",a,y\n" + first)
    data = load_dataset(tmp_path / "cars.csv", Columns(["y"]))
    assert data.source.features == ("a",)


def test_arrays_have_no_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", X=np.ones((3, 2)), y=np.arange(3))
    with pytest.raises(ValueError, match="nothing is filled or encoded"):
        load_dataset(tmp_path / "data.npz", asked=BOTH)
