"""Files of columns: what is read, and how damage is told."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.data.table import ColumnError, read_table


@pytest.fixture
def csv(tmp_path):
    def write(text: str, name: str = "data.csv", encoding: str = "utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding, newline="")
        return path

    return write


def test_names_numbers_and_labels(csv):
    table = read_table(csv("a, b,kind\n1,2.5,yes\n-3e2,0,no\n\n"))
    assert list(table.columns) == ["a", "b", "kind"]
    np.testing.assert_array_equal(table.numbers("a"), [1.0, -300.0])
    assert table.labels("kind").tolist() == ["yes", "no"]
    assert table.labels("a").dtype == np.int64
    assert table.labels("b").dtype == np.float64
    assert [table.is_numeric(name) for name in table.columns] == [True, True, False]


@pytest.mark.parametrize(("text", "names"), [("1,2\n3,4\n", ["0", "1"]), ("x,2\n3,4\n", ["x", "2"])])
def test_a_header_is_found_out(csv, text, names):
    assert list(read_table(csv(text)).columns) == names
    assert list(read_table(csv(text), header=False).columns) == ["0", "1"]
    assert read_table(csv(text), header=True).n_rows == 1


@pytest.mark.parametrize(
    "text", ["a;b\n1;2\n", "a\tb\n1\t2\n", "\ufeffa,b\r\n1,2\r\n", '"a","b"\n"1",2', "a,b\n 1, 2\n"]
)
def test_ways_to_write_the_same(csv, text):
    table = read_table(csv(text))
    assert list(table.columns) == ["a", "b"]
    assert (table.numbers("a")[0], table.numbers("b")[0]) == (1.0, 2.0)


def test_columns_by_position(csv):
    table = read_table(csv("a,b,c\n1,2,3\n"))
    assert [table.resolve(name) for name in ("b", "0", "-1")] == ["b", "a", "c"]
    with pytest.raises(ColumnError, match="no column 'd'; it has 'a', 'b', 'c'"):
        table.resolve("d")
    with pytest.raises(ColumnError, match="no column '3'"):
        table.resolve("3")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n\n3\n", "line 4 has 1 fields, but line 1 has 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 fields"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("a,\n1,2\n", "column 1 has no name"),
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("a,b\n", "no rows"),
        ('a,b\n"1,2\n3,4\n', "not valid CSV"),
    ],
)
def test_ragged_and_empty_files(csv, text, says):
    with pytest.raises(ValueError, match=says):
        read_table(csv(text))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("", "line 4: the value is missing"),
        ("NA", "line 4: the value is missing"),
        ("nan", "line 4: the value is missing"),
        ("inf", "line 4: the value is missing or not finite"),
        ("12x", "line 4: '12x' is not a number"),
    ],
)
def test_bad_cells_are_named(csv, cell, says):
    table = read_table(csv(f"a,b\n1,2\n\n3,{cell}\n"))
    with pytest.raises(ValueError, match=f"column 'b', {says}"):
        table.numbers("b")
    np.testing.assert_array_equal(table.numbers("a"), [1, 3])


def test_missing_labels_are_named(csv):
    with pytest.raises(ValueError, match="column 'kind', line 3: the label is missing"):
        read_table(csv("a,kind\n1,yes\n2,?\n3,no\n")).labels("kind")


def test_files_that_are_no_tables(csv, tmp_path):
    with pytest.raises(ValueError, match=r"type \.xlsx"):
        read_table(csv("a,b\n1,2\n", "data.xlsx"))
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_table(csv("é,b\n1,2\n", encoding="latin-1"))
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="not a readable NPY"):
        read_table(csv("words", "data.npy"))
    with pytest.raises(ValueError, match="not a readable Parquet"):
        read_table(csv("words", "data.parquet"))
    np.save(tmp_path / "objects.npy", np.array([["a", 1]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a readable NPY"):
        read_table(tmp_path / "objects.npy")
    np.save(tmp_path / "vector.npy", np.ones(3))
    with pytest.raises(ValueError, match="two dimensions"):
        read_table(tmp_path / "vector.npy")


def test_parquet(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.0], "flag": [True, False, True], "kind": ["x", "y", "x"]})
    frame["category"] = frame["kind"].astype("category")
    frame.to_parquet(tmp_path / "data.parquet", index=False)
    table = read_table(tmp_path / "data.parquet")
    np.testing.assert_array_equal(table.numbers("a"), [1, 2, 3])
    np.testing.assert_array_equal(table.numbers("flag"), [1, 0, 1])
    assert table.labels("kind").tolist() == table.labels("category").tolist() == ["x", "y", "x"]
    assert table.labels("flag").dtype == bool
    with pytest.raises(ValueError, match="column 'b', row 2: the value is missing"):
        table.numbers("b")


def test_npy(tmp_path):
    np.save(tmp_path / "data.npy", np.array([[1, 2], [3, 4]], dtype=np.int16))
    table = read_table(tmp_path / "data.npy")
    np.testing.assert_array_equal(table.numbers("1"), [2, 4])
    assert table.resolve("-1") == "1"
