"""From columns to samples and targets."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.data.demo import digits, spiral
from provenet.data.loading import Columns, Source, guess_task, load_dataset, load_like
from provenet.data.table import ColumnError


@pytest.fixture
def flowers(tmp_path):
    path = tmp_path / "flowers.csv"
    path.write_text("width,length,count,kind\n1.5,2,3,rose\n2.5,1,1,tulip\n0.5,4,2,rose\n")
    return path


def test_features_are_all_that_is_not_used_otherwise(flowers):
    data = load_dataset(flowers, Columns(["kind"], weight="count"))
    assert data.source == Source(("width", "length"), ("kind",), "count")
    np.testing.assert_array_equal(data.X, [[1.5, 2], [2.5, 1], [0.5, 4]])
    assert data.y.tolist() == ["rose", "tulip", "rose"]
    np.testing.assert_array_equal(data.weight, [3, 1, 2])
    assert load_dataset(flowers, Columns(["-1"], drop=["0"])).source.features == ("length", "count")
    assert load_dataset(flowers, Columns(["kind"], features=["length"])).X.shape == (3, 1)


def test_several_targets_are_numbers(flowers):
    data = load_dataset(flowers, Columns(["width", "count"], features=["length"]))
    np.testing.assert_array_equal(data.y, [[1.5, 3], [2.5, 1], [0.5, 2]])
    with pytest.raises(ValueError, match="'rose' is not a number"):
        load_dataset(flowers, Columns(["width", "kind"], features=["length"]))
    with pytest.raises(ValueError, match="'rose' is not a number"):
        load_dataset(flowers, Columns(["kind"]), task="regression")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"targets": []}, "say which column to predict"),
        ({"targets": ["colour"]}, "no column 'colour'"),
        ({"targets": ["kind"], "drop": ["colour"]}, "no column 'colour'"),
        ({"targets": ["kind"], "features": ["kind", "width"]}, "'kind' cannot be a feature"),
        ({"targets": ["kind"], "drop": ["0", "1", "2"]}, "no column is left"),
    ],
)
def test_wrong_columns(flowers, arguments, says):
    with pytest.raises(ColumnError, match=says):
        load_dataset(flowers, Columns(**arguments))


def test_npz(tmp_path):
    X, y = np.arange(6).reshape(3, 2), np.array(["a", "b", "a"])
    np.savez(tmp_path / "data.npz", X=X, y=y, w=np.ones(3), z=np.zeros(3))
    data = load_dataset(tmp_path / "data.npz", Columns(weight="w"))
    np.testing.assert_array_equal(data.X, X)
    assert data.X.dtype == np.float64
    assert data.y.tolist() == ["a", "b", "a"]
    assert load_dataset(tmp_path / "data.npz", Columns(["z"])).y.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(load_like(tmp_path / "data.npz", data.source, with_targets=True).y, y)
    with pytest.raises(ColumnError, match="no array 'v'; it has 'X', 'y', 'w', 'z'"):
        load_dataset(tmp_path / "data.npz", Columns(["v"]))
    with pytest.raises(ColumnError, match="no columns to choose"):
        load_dataset(tmp_path / "data.npz", Columns(drop=["0"]))
    np.savez(tmp_path / "flat.npz", X=np.ones(3), y=y)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        load_dataset(tmp_path / "flat.npz")


def test_new_files_are_read_like_the_old(flowers, tmp_path):
    source = load_dataset(flowers, Columns(["kind"], drop=["count"])).source
    new = tmp_path / "new.csv"
    new.write_text("length,extra,width\n7,x,8\n")
    np.testing.assert_array_equal(load_like(new, source, with_targets=False).X, [[8, 7]])
    with pytest.raises(ColumnError, match="'kind', which the model was fitted with, is missing"):
        load_like(new, source, with_targets=True)
    new.write_text("5,6\n")  # no names: the features in their order
    np.testing.assert_array_equal(load_like(new, source, with_targets=False).X, [[5, 6]])


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.array(["a", "b"]), "classification"),
        (np.array([True, False]), "classification"),
        (np.array([0, 1, 1, 0]), "classification"),
        (np.array([0.0, 1.0, 2.0, 0.0, 1.0, 2.0]), "classification"),
        (np.array([0.0, 0.5, 1.0]), "regression"),
        (np.arange(40), "regression"),
        (np.arange(6), "regression"),
        (np.zeros((4, 2)), "regression"),
    ],
)
def test_guessing_the_task(y, task):
    assert guess_task(y) == task


def test_demo_data():
    X, y = spiral(150)
    assert X.shape == (150, 2)
    assert np.bincount(y).tolist() == [50, 50, 50]
    assert np.abs(X).max() < 1.3
    np.testing.assert_array_equal(spiral(150)[0], X)
    clean, _ = spiral(7, noise=0.0)
    assert np.linalg.norm(clean, axis=1).max() == pytest.approx(1.0)
    assert spiral(7)[1].tolist() == [0, 0, 0, 1, 1, 2, 2]
    X, y = digits()
    assert X.shape == (1797, 64)
    assert (X.min(), X.max(), len(set(y.tolist()))) == (0.0, 1.0, 10)


def test_rows_are_read_as_tokens_or_images(tmp_path):
    X = np.arange(48, dtype=np.float32).reshape(4, 12)
    np.savez(tmp_path / "flat.npz", X=X, y=np.arange(4), mask=np.ones((4, 3)))
    tokens = load_dataset(tmp_path / "flat.npz", sample=(3, -1))
    assert tokens.X.dtype == np.float32
    assert tokens.X[1].tolist() == X[1].reshape(3, 4).tolist()
    assert tokens.mask.shape == (4, 3)
    image = load_dataset(tmp_path / "flat.npz", sample=(1, 3, 4))
    assert image.X.shape == (4, 1, 3, 4)
    again = load_like(tmp_path / "flat.npz", image.source, with_targets=True, shape=(1, 3, 4))
    np.testing.assert_array_equal(again.X, image.X)
    for wrong in ({"sample": (5, -1)}, {"sample": (1, 5, 5)}):
        with pytest.raises(ColumnError, match="cannot be read as"):
            load_dataset(tmp_path / "flat.npz", **wrong)
    np.savez(tmp_path / "deep.npz", X=X.reshape(4, 3, 4), y=np.arange(4))
    assert load_dataset(tmp_path / "deep.npz", sample=(3, -1)).X.shape == (4, 3, 4)
    with pytest.raises(ColumnError, match="samples of shape 3 × 4 cannot be read as 6 tokens"):
        load_dataset(tmp_path / "deep.npz", sample=(6, -1))


def test_labels_of_tokens_are_classes():
    labels = np.arange(12).reshape(4, 3) % 2
    assert guess_task(labels, tokens=True) == "classification"
    assert guess_task(labels) == guess_task(labels + 0.5, tokens=True) == "regression"
