"""The tables: read from files as they come, split as promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from provenet.bench import Table, bundled, suite
from provenet.bench.tables import DEVELOPED, JUDGED, MOST_TRAINED_ON
from provenet.bench.uci import read_uci


def write(file: Path, X: np.ndarray, y: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    head = "\t" + "\t".join(f"f{k}" for k in range(X.shape[1])) + "\tclase\n"
    lines = ("\t".join(map(str, (k, *row, label))) for k, (row, label) in enumerate(zip(X, y, strict=True), 1))
    file.write_text(head + "\n".join(lines) + "\n")


def test_one_file_or_two_or_one_of_another_name(tmp_path: Path) -> None:
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
    write(tmp_path / "one" / "one_R.dat", X, y)
    write(tmp_path / "two" / "two_train_R.dat", X[:4], y[:4])
    write(tmp_path / "two" / "two_test_R.dat", X[4:], y[4:])
    write(tmp_path / "odd" / "features_of_it_R.dat", X, y)
    for name in ("one", "two", "odd"):
        read = read_uci(tmp_path, name)
        assert np.array_equal(read[0], X)
        assert np.array_equal(read[1], y)


def test_what_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no table 'car'.*CameronDiao"):
        read_uci(tmp_path, "car")
    with pytest.raises(FileNotFoundError, match=r"no such folder.*data\.tar\.gz"):
        list(suite(tmp_path / "nowhere"))
    (tmp_path / "car").mkdir()
    (tmp_path / "car" / "car_R.dat").write_text("\tf1\tclase\n1\tred\t0\n")
    with pytest.raises(ValueError, match=r"car_R\.dat: it is not a table of numbers"):
        read_uci(tmp_path, "car")
    write(tmp_path / "car" / "car_R.dat", np.ones((2, 2)), np.array([0.5, 1.0]))
    with pytest.raises(ValueError, match="a whole number, the class"):
        read_uci(tmp_path, "car")


def test_what_is_judged_was_not_developed_on() -> None:
    assert len(set(JUDGED)) >= 20
    assert not set(JUDGED) & set(DEVELOPED)
    assert list(JUDGED) == sorted(JUDGED)


def test_splits_are_stratified_standardised_and_no_larger_than_promised() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(3, 5, 4000), np.full(4000, 7.0)])
    table = Table("made", X, np.repeat([0, 1], [3000, 1000]))
    split = table.split(0)
    assert len(split.y) == MOST_TRAINED_ON
    assert len(split.y) + len(split.y_test) == 4000
    assert split.y.mean() == pytest.approx(0.25)
    assert split.X[:, 0].mean() == pytest.approx(0, abs=1e-12)
    assert split.X[:, 0].std() == pytest.approx(1)
    assert not split.X[:, 1].any()
    assert not np.array_equal(split.X, table.split(1).X)
    assert np.array_equal(split.X, table.split(0).X)


def test_without_a_folder_there_are_scikit_learns_own() -> None:
    names = [table.name for table in suite(None)]
    assert names == [table.name for table in bundled()]
    assert "digits" in names
    diabetes = next(table for table in bundled() if table.name == "diabetes")
    assert diabetes.size == "442 × 10"
    assert diabetes.split(0).y.std() == pytest.approx(1)
