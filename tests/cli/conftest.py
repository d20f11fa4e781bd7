"""Small files, and the command line run in this process."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from provenet.cli import app


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run `provenet …` in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: Any) -> Answer:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture(scope="session")
def flowers(tmp_path_factory):
    """A CSV of two measurements, a weight and a kind."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 2))
    kinds = np.where(X[:, 0] * X[:, 1] > 0, "rose", np.where(X[:, 0] > 0, "tulip", "lily"))
    path = tmp_path_factory.mktemp("data") / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["width", "length", "count", "kind"])
        writer.writerows([*row, k % 3 + 1, kind] for k, (row, kind) in enumerate(zip(X.tolist(), kinds, strict=True)))
    return path


@pytest.fixture(scope="session")
def values(tmp_path_factory):
    """An NPZ of samples and two targets."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(40, 3))
    path = tmp_path_factory.mktemp("data") / "values.npz"
    np.savez(path, X=X, y=np.stack([np.abs(X[:, 0]), X[:, 1]], axis=1))
    return path


FAST = ("--gates", 20, "--no-report")


@pytest.fixture
def model(run, flowers, tmp_path):
    answer = run("fit", flowers, "-t", "kind", "--drop", "count", *FAST, "-o", "flowers")
    assert answer.code == 0, answer.err
    return tmp_path / "flowers"
