"""Where shards come from: each kind gives the same samples, and what is wrong with one is named."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, TensorDataset

import provenet as pn
from provenet import batches
from provenet.data.partition import Partition
from provenet.data.sharded import as_shards, comes_in_shards

X: NDArray[Any] = np.random.default_rng(0).standard_normal((50, 4))
Y: NDArray[Any] = np.arange(50) % 3


def npy(folder: Path) -> tuple[Any, Any]:
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", Y)
    return folder / "X.npy", str(folder / "y.npy")


def mapped(folder: Path) -> tuple[Any, Any]:
    np.save(folder / "X.npy", np.vstack([X[:7], X]))
    return np.load(folder / "X.npy", mmap_mode="r")[7:], Y


def parquet(folder: Path) -> tuple[Any, Any]:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({**{f"x{i}": X[:, i] for i in range(4)}, "label": Y})
    pytest.importorskip("pyarrow.parquet").write_table(table, folder / "t.parquet", row_group_size=20)
    return folder / "t.parquet", "label"


def pairs(folder: Path) -> tuple[Any, Any]:
    np.save(folder / "second.npy", X[20:35])
    nothing = X[:0], Y[:0]
    return [(X[:20], Y[:20]), nothing, (folder / "second.npy", Y[20:35]), (torch.from_numpy(X[35:]), Y[35:])], None


def loader(folder: Path) -> tuple[Any, Any]:
    return DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=8), None


def generator(folder: Path) -> tuple[Any, Any]:
    return ((X[i : i + 9], Y[i : i + 9]) for i in range(0, 50, 9)), None


KINDS = [npy, mapped, parquet, pairs, loader, generator]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_same_samples(kind: Callable[[Path], tuple[Any, Any]], tmp_path: Path) -> None:
    shards, labels = as_shards(*kind(tmp_path))
    assert shards.shape == (50, 4)
    assert shards.dtype == torch.float64
    assert np.array_equal(shards[0:50].numpy(), X)
    assert np.array_equal(shards[13:41].numpy(), X[13:41])
    assert len(shards[50:60]) == 0
    assert np.array_equal(labels, Y)
    with batches.within(32 * 3 * 4 * 8):
        assert np.array_equal(shards.spaced(9).numpy(), X[::5])
        assert max(len(x) for _, x in shards.tiles()) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_fitted_to_the_optimum_of_all(kind: Callable[[Path], tuple[Any, Any]], tmp_path: Path) -> None:
    whole = pn.formulate("mlp", X, Y, loss="softmax", gates=6, beta=1.0, fit_intercept=True)
    problem = pn.formulate("mlp", *kind(tmp_path), loss="softmax", gates=6, beta=1.0, fit_intercept=True)
    assert problem.memory is not None or kind is mapped  # which fits into memory, and has no limit here
    assert torch.equal(problem.patterns, whole.patterns)
    found = pn.solve(problem, tol=1e-3)
    assert found.certificate.primal == pytest.approx(pn.solve(whole, tol=1e-4).certificate.primal, rel=1.1e-3)


def test_a_temporary_file_goes_with_the_shards(tmp_path: Path) -> None:
    shards, _ = as_shards(*generator(tmp_path))
    path = Path(shards.parts[0].name)
    assert path.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del shards
    assert not path.parent.exists()


def test_samples_of_a_file_are_predicted_as_those_of_an_array(tmp_path: Path) -> None:
    pd.DataFrame(X, columns=list("abcd")).to_parquet(tmp_path / "X.parquet")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    clf = pn.ProvenClassifier(beta=1.0, n_gates=5, tol=0.1).fit([(tmp_path / "X.npy", tmp_path / "y.npy")])
    for name in ("X.npy", "X.parquet"):
        assert np.array_equal(clf.predict(tmp_path / name), clf.predict(X))
        assert clf.score(str(tmp_path / name), Y) == clf.score(X, Y)
    np.save(tmp_path / "X.npy", np.where(np.arange(len(X))[:, None] == 3, np.nan, X))
    with pytest.raises(ValueError, match="contains NaN, in row 3"):
        clf.predict(tmp_path / "X.npy")


def test_units_of_a_torch_network_are_gates_of_shards() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6, bias=False), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    posed = {"gates": net, "loss": "squared", "beta": 1.0}
    whole, shards = pn.formulate("mlp", X, Y, **posed), pn.formulate("mlp", [(X, Y)], **posed)
    assert torch.equal(whole.patterns, shards.patterns)
    with pytest.raises(ValueError, match="gates: gate vectors need shape"):
        pn.formulate("mlp", [(X, Y)], gates=3.5, loss="squared", beta=1.0)


def test_numbers_that_float32_holds_stay_small() -> None:
    for dtype in (np.uint8, np.float32, np.int16):
        shards, _ = as_shards((10 * np.abs(X)).astype(dtype), Y)
        assert shards.dtype == torch.float32
    assert as_shards((10 * X).astype(np.int64), Y)[0].dtype == torch.float64


def test_what_comes_in_shards() -> None:
    assert comes_in_shards("X.npy")
    assert comes_in_shards([(X, Y)])
    assert comes_in_shards(iter([(X, Y)]))
    assert comes_in_shards([("X.npy", Y)])
    for whole in (X, torch.from_numpy(X), X.tolist(), [], [X, X], {"a": 1}, [["0.5", "1.5"], ["2.5", "3"]]):
        assert not comes_in_shards(whole)


def wrong(**changed: Any) -> list[Any]:
    shards = [[X[:20], Y[:20]], [X[20:30], Y[20:30]], [X[30:], Y[30:]]]
    shards[1] = [changed.get("X", shards[1][0]), changed.get("y", shards[1][1])]
    return [tuple(shard) for shard in shards]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (wrong(X=X[20:30, :3]), r"X: shard 1 has samples of shape \(3,\), those before it of \(4,\)"),
        (wrong(y=None), "Y: the labels of shard 1 are missing"),
        (wrong(y=Y[20:29]), "Y: shard 1 has 10 samples, and labels of shape"),
        (wrong(y=np.where(np.arange(10) == 4, np.nan, 1.0)), "Y: in shard 1 the label of row 4 is missing"),
        (wrong(y=np.array([None, *"abcdefghi"], dtype=object)), "Y: in shard 1 the label of row 0 is missing"),
        (wrong(y=np.ones((10, 2))), "Y: the labels of shard 1 have shape"),
        (wrong(X=np.full((10, 4), np.inf)), r"X: shard 1 contains infinity, in row 0 at \(0,\)"),
        ([(X[:0], Y[:0])], "no sample in any shard"),
        (iter([]), "there is no sample in it"),
        (iter([(X, Y, Y)]), r"X: batch 0 must be a pair \(X, y\), got 3 parts"),
        (iter([(X, Y), (X[:, :2], Y)]), r"X: batch 1 has samples of shape \(2,\)"),
        (iter([(X, Y), (X[:3], None)]), "Y: the labels of batch 1 are missing"),
        ([(X, Y), (X,)], r"X: batch 1 must be a pair \(X, y\), got 1 parts"),
        ("X.csv", "X.csv is no NPY or Parquet file"),
    ],
)
def test_what_is_wrong_is_named(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pn.formulate("mlp", data, loss="softmax" if "label of" not in message else "squared")


def test_files_that_are_no_data(tmp_path: Path) -> None:
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    np.save(tmp_path / "words.npy", np.array([["a"]]))
    (tmp_path / "short.npy").write_bytes((tmp_path / "F.npy").read_bytes()[:-8])
    (tmp_path / "bad.parquet").write_bytes(b"no")
    for name, message in {
        "F": "column by column",
        "words": "numbers of shape",
        "short": "another size|column by column",
    }.items():
        with pytest.raises(ValueError, match=message):
            pn.formulate("mlp", tmp_path / f"{name}.npy", Y)
    with pytest.raises((ValueError, OSError), match=r"nowhere\.npy"):
        pn.formulate("mlp", tmp_path / "nowhere.npy", Y)
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        pn.formulate("mlp", tmp_path / "bad.parquet", "label")


def test_parquet_columns_are_checked(tmp_path: Path) -> None:
    path, _ = parquet(tmp_path)
    with pytest.raises(ValueError, match=r"Y: .* it is the name of the target column"):
        pn.formulate("mlp", path, Y)
    with pytest.raises(ValueError, match="no column 'nothing'"):
        pn.formulate("mlp", path, "nothing")


def test_parquet_without_pyarrow_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match=r"needs the package pyarrow: pip install 'provenet\[data\]'"):
        pn.formulate("mlp", tmp_path / "t.parquet", "label")


def changed_after(path: Path, change: Callable[[Path], Any]) -> Iterator[Callable[[], Any]]:
    """What is asked of a problem whose file was changed after it was posed."""
    problem = pn.formulate("mlp", path, Y * 1.0, gates=4, beta=20.0)
    network = pn.solve(problem, tol=1e-2).network()
    change(path)
    yield lambda: pn.certify(problem, network)
    yield lambda: pn.solve(problem, tol=1e-2, memory_limit="60MB")


def one_number(path: Path) -> None:
    before = os.stat(path)
    np.load(path, mmap_mode="r+")[30, 2] += 1e-9
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # neither size nor time tells


def cut(path: Path) -> None:
    os.truncate(path, 500)


@pytest.mark.parametrize("change", [one_number, cut, lambda path: np.save(path, X + 1)])
def test_a_file_that_changed_is_refused(change: Callable[[Path], Any], tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    for asked in changed_after(tmp_path / "X.npy", change):
        with pytest.raises(ValueError, match=r"X\.npy: it has changed since the problem was posed"):
            asked()


def test_a_file_that_was_only_touched_is_not(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X)
    for asked in changed_after(tmp_path / "X.npy", lambda path: os.utime(path)):
        assert isinstance(asked(), (pn.Certificate, pn.Solution))


def test_an_array_that_changed_is_refused() -> None:
    own = X.copy()
    problem = pn.formulate("mlp", [(own, Y * 1.0)], gates=4, beta=20.0)
    network = pn.solve(problem, tol=1e-2).network()
    own[3, 3] += 1
    with pytest.raises(ValueError, match="shard 0: it has changed"):
        pn.certify(problem, network)


def test_rows_of_parts() -> None:
    parts = Partition([3, 0, 4])
    assert parts.total == 7
    assert list(parts.within(slice(0, 7))) == [(0, 0, 3), (2, 0, 4)]
    assert list(parts.within(slice(2, 4))) == [(0, 2, 3), (2, 0, 1)]
    assert list(parts.within(slice(5, None))) == [(2, 2, 4)]
    with pytest.raises(ValueError, match="every 2"):
        list(parts.within(slice(0, 7, 2)))
