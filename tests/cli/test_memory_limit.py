"""`--memory-limit`: files larger than memory."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn

N, D = 6000, 30  # 1.5 MB, a tenth of the limit
LIMIT = ("--memory-limit", "15MB")
FAST = ("--beta", "0.3max", "--gates", 4, "--tol", 1e-2)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N, D))
    return np.column_stack([X, np.maximum(X[:, 0], 0) > np.maximum(X[:, 1], 0)])


def test_an_npy_file_is_read_in_shards(run, table):
    np.save("table.npy", table)
    answer = run("fit", "table.npy", "--target", -1, "--drop", 3, *LIMIT, *FAST, "--out", "model")
    assert answer.code == 0
    assert "note: memory: up to " in answer.err
    assert f"classification on {N} × {D - 1} data" in answer.out
    assert "by lbfgs" in answer.out
    assert "report" in answer.out
    loaded = pn.load("model")
    whole = run("fit", "table.npy", "--target", -1, "--drop", 3, *FAST, "--no-report", "--json", "--out", "whole").json
    assert loaded.certificate_.primal == pytest.approx(whole["certificate"]["primal"], rel=1.1e-2)
    assert run("certify", "model", "table.npy", "--tol", 1e-2).code == 0


def test_a_parquet_file_is_too(run, table):
    arrow = pytest.importorskip("pyarrow")
    columns = {f"x{i}": table[:, i] for i in range(D)} | {"kind": np.where(table[:, -1] > 0, "yes", "no")}
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), "table.parquet")
    answer = run("fit", "table.parquet", "-t", "kind", *LIMIT, *FAST, "--no-report", "--json", "--out", "model")
    assert answer.code == 0
    assert answer.json["method"] == "lbfgs"
    assert pn.load("model").classes_.tolist() == ["no", "yes"]
    assert run("certify", "model", "table.parquet", "--tol", 1e-2).code == 0


def test_rows_as_tokens(run, table):
    np.save("table.npy", table)
    more = "--block", "fnet", "--tokens", 5, "--solver", "lbfgs", *LIMIT, *FAST, "--no-report", "--json"
    answer = run("fit", "table.npy", "--target", -1, *more)
    assert answer.code == 0
    assert answer.json["samples"] == [N, 5, D // 5]
    assert run("fit", "table.npy", "--target", -1, "--block", "fnet", "--tokens", 7, *LIMIT).code != 0


def test_limits_that_cannot_be_kept(run, table):
    np.save("table.npy", table)
    short = run("fit", "table.npy", "--target", -1, "--memory-limit", "1MB")
    assert short.code == 1
    assert "is less than the least that works here" in short.err
    assert run("fit", "table.npy", "--target", -1, "--memory-limit", "lots").code == 2
    for option in (("--cv", 3), ("--holdout", 0.2)):
        refused = run("fit", "table.npy", "--target", -1, *LIMIT, *option)
        assert refused.code == 2
        assert option[0] in refused.err
    assert run("path", "table.npy", "--target", -1, *LIMIT).code == 2


def test_small_files_stay_in_memory(run, flowers):
    answer = run("fit", flowers, "-t", "kind", "--gates", 20, "--no-report", "--memory-limit", "1GB")
    assert answer.code == 0
    assert "samples are worked on in memory" in answer.err
