"""Files of columns: what is read, and how damage is told."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest

from provenet.data.loading import Columns, load_dataset
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
    "text",
    [
        *("a;b\n1;2\n", "a\tb\n1\t2\n", "a|b\n1|2\n", "\ufeffa,b\r\n1,2\r\n", '"a","b"\n"1",2', "a,b\n 1, 2\n"),
        *("\n\na;b\n1;2\n", "a,b,\n1,2,\n", "a;b;;\n1,0;2,0;;\n"),
    ],
)
def test_ways_to_write_the_same(csv, text):
    table = read_table(csv(text))
    assert list(table.columns) == ["a", "b"]
    assert (table.numbers("a")[0], table.numbers("b")[0]) == (1.0, 2.0)


def test_commas_of_numbers_part_no_fields(csv):
    table = read_table(csv("0,5;1,5;7\n2,5;3,5;8\n"))
    np.testing.assert_array_equal(table.matrix(["0", "1"]), [[0.5, 1.5], [2.5, 3.5]])
    assert list(read_table(csv('"a;b;c",d\n1,2\n')).columns) == ["a;b;c", "d"]
    assert list(read_table(csv("text,n\ngood; bad,1\nfine,2\n")).columns) == ["text", "n"]


@pytest.mark.parametrize("inside", ["|", ";"])
def test_commas_part_fields_that_hold_other_marks(csv, inside):
    """As often in every line as the commas, which are of no numbers."""
    table = read_table(csv(f"id{inside}part,x,y\nA{inside}1,2.5,3\nB{inside}2,4,5\nC{inside}9,6,7\n"))
    assert list(table.columns) == [f"id{inside}part", "x", "y"]


def test_a_column_behind_the_last_delimiter_is_one_where_it_holds_something(csv):
    with pytest.raises(ValueError, match="no name for column 2, counted from 0; give it one"):
        read_table(csv("a,b,\n1,2,\n3,4,5\n"))


def test_of_a_column_of_truths_what_is_none_is_named(csv):
    with pytest.raises(ValueError, match="column 'a', line 3: 'maybe' is not a number"):
        read_table(csv("a,b\ntrue,1\nmaybe,2\nfalse,3\n")).numbers("a")
    with pytest.raises(ValueError, match="column 'a', line 2: 'true' is not a number"):
        read_table(csv("a,b\ntrue,1\nyes,2\n")).numbers("a")


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
        ("a,\n1,2\n", "no name for column 1"),
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


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1,2,rose\n3,4,lily\n5,6,rose\n", False),  # numbers above numbers
        ("a,b,kind\n1,2,rose\n3,4,lily\n", True),
        ("name,2019,2020\nrose,1,2\nlily,3,4\n", False),  # years above numbers: nothing says otherwise
        ("name,mean,2020\nrose,1,2\nlily,3,4\n", True),
        ("yes,no\nno,yes\nyes,yes\n", False),  # words that are among those below
        ("left,right\nno,yes\nyes,yes\n", True),
        (",a,b\n0,1,2\n1,3,4\n", True),
        ("NA,1\n2,3\n4,5\n", False),
    ],
)
def test_whether_the_first_line_is_names(csv, text, named):
    assert read_table(csv(text)).named is named


def test_all_bad_columns_at_once(csv):
    table = read_table(csv("a,b,c,d\n1,x,3,4\n1,2,,4\n"))
    with pytest.raises(ValueError, match=r"2 of 4 columns .*'b', line 2: 'x' is .*; .*'c', line 3: the value"):
        table.matrix(["a", "b", "c", "d"])
    with pytest.raises(ValueError, match=r"column 'b', line 2: 'x' is not a number; make"):
        table.matrix(["a", "b", "d"])


def test_decimal_commas_where_commas_do_not_part_fields(csv):
    table = read_table(csv("a;b;c\n1,5;2;x,y\n-0,25;3;z\n"))
    np.testing.assert_array_equal(table.numbers("a"), [1.5, -0.25])
    assert table.labels("c").tolist() == ["x,y", "z"]


def test_an_unnamed_first_column_of_row_numbers_is_no_feature(csv):
    path = csv(",a,y\n0,5,1\n1,7,2\n2,1,3\n")
    assert load_dataset(path, Columns(["y"])).source.features == ("a",)
    assert load_dataset(path, Columns(["y"], features=["unnamed", "a"])).X.shape == (3, 2)
    assert load_dataset(csv(",a,y\n4,5,1\n4,7,2\n2,1,3\n"), Columns(["y"])).source.features == ("unnamed", "a")


def test_which_rows_and_columns_were_used_is_told(csv):
    assert load_dataset(csv("a,b,y\n1,2,3\n4,5,6\n"), Columns(["y"])).read == (
        "2 rows (lines 2 to 3, with names), 2 features ('a', 'b'), target 'y'"
    )
    assert "3 rows (lines 1 to 3, without names" in load_dataset(csv("1,2,3\n4,5,6\n7,8,9\n"), Columns(["-1"])).read


def test_wide_files_are_read_in_linear_time(csv):
    width = 20_000
    text = "\n".join([",".join(f"g{i}" for i in range(width)), *[",".join(["1"] * width)] * 3])
    began = time.process_time()
    assert load_dataset(csv(text), Columns(["g7"])).X.shape == (3, width - 1)
    assert time.process_time() - began < 4.0


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,y\n1,2\n3,4\n5,6\n")))
    assert load_dataset("-", Columns(["y"])).X.tolist() == [[1.0], [3.0], [5.0]]
