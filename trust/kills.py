"""kill -9 at random moments: of saves in a tight loop, of a run that keeps snapshots, of a path on the command line."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from provenet.cli import main, path_files
from provenet.cli import path as path_command
from trust.figure import Figure, Seen, Try
from trust.forks import Say, told_by
from trust.models import seeded

_STARTED = 0.05  # seconds that a process may take to begin


@contextmanager
def saving(folder: Path) -> Iterator[Try]:
    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = pn.formulate("mlp", X, X[:, :1], gates=4, beta=0.1)
    pair = seeded(lambda: [pn.solve(problem.with_beta(beta)) for beta in (0.1, 0.2)])
    place = folder / "model"

    def work(say: Say) -> None:
        for number in range(10**6):
            pn.save(pair[number % 2], place, source={"number": number})
            say(str(number))

    began = time.perf_counter()
    pn.save(pair[0], folder / "another", source={"number": 0})
    taken = time.perf_counter() - began

    def attempt(case: int) -> Seen:
        if case % 10 == 0:
            shutil.rmtree(place, ignore_errors=True)
        there = place.exists()
        said = told_by(work, np.random.default_rng([case, 4]).uniform(0.0, _STARTED + 4 * taken))
        try:
            found = pn.load(place)
        except (ValueError, OSError) as error:
            lost = there or said
            return Seen("none was saved yet", f"after {len(said)} saves there is no model: {error}" if lost else None)
        number = int(found.source["number"])
        whole = found.certificate == pair[number % 2].certificate
        right = not said or number in (int(said[-1]), int(said[-1]) + 1)
        wrong = None if whole and right else f"model {number}, whole {whole}, after {said[-1:]} was saved"
        return Seen("the old model or the new one", wrong)

    yield attempt


@contextmanager
def snapshotting(folder: Path) -> Iterator[Try]:
    """Killed up to three times, then left alone: it must end where it would have, to the last bit."""
    X = np.random.default_rng(1).standard_normal((60, 4))
    problem = pn.formulate("mlp", X, np.sin(X[:, :2]), gates=12, beta=0.02)
    place = folder / "kept"

    def solved() -> str:
        return weights(pn.solve(problem, "lbfgs", tol=1e-9, max_steps=40))

    def work(say: Say) -> None:
        with pn.snapshots(place, every=2):
            said = solved()
        say(said)

    began = time.perf_counter()
    whole = seeded(solved)
    taken = time.perf_counter() - began

    def attempt(case: int) -> Seen:
        rng = np.random.default_rng([case, 5])
        shutil.rmtree(place, ignore_errors=True)
        kills, ends = 0, told_by(work, rng.uniform(0.0, 2 * taken))
        while not ends and kills < 3:
            kills += 1
            ends = told_by(work, rng.uniform(0.0, 2 * taken) if kills < 3 else None)
        left = [each.name for each in place.iterdir()] if place.exists() else []
        wrong = None if ends == [whole] and not left else f"killed {kills} times it ends in {ends}, and leaves {left}"
        return Seen(f"killed {kills} time{'s' * (kills != 1)}, the same to the last bit", wrong)

    yield attempt


@contextmanager
def walking(folder: Path) -> Iterator[Try]:
    """Rows that were written before the kill are there, whole, and those of a path that was left alone."""
    X = np.random.default_rng(2).standard_normal((30, 2))
    table, out = folder / "table.csv", folder / "path"
    table.write_text("a,b,y\n" + "".join(f"{a},{b},{abs(a) + b}\n" for a, b in X))
    sys.argv = ["provenet", *f"path {table} -t y --gates 4 --betas 8 --out {out} --json".split()]

    def work(say: Say) -> None:
        add = path_files.PathFiles.add

        def heard(self: Any, row: dict[str, Any]) -> None:
            add(self, row)
            say(json.dumps(row["beta"]))

        path_files.PathFiles.add = heard  # type: ignore[method-assign]
        path_command.write_report = sys.exit  # what follows the path is not what is killed here
        main()

    began = time.perf_counter()
    betas = told_by(work)
    taken = time.perf_counter() - began
    whole = rows(out)

    def attempt(case: int) -> Seen:
        if case % 2:
            shutil.rmtree(out, ignore_errors=True)
        there = out.exists()
        said = told_by(work, np.random.default_rng([case, 6]).uniform(0.0, 1.1 * taken))
        found = rows(out) if (out / "path.csv").exists() else []
        if there and not said:  # of the path before, or one row that was not told of yet
            return Seen("the path before", None if same(found, whole[: len(found)]) else f"{len(found)} other rows")
        known = said == betas[: len(said)] and len(found) - len(said) in (0, 1) and same(found, whole[: len(found)])
        if (out / "path.json").exists():
            told = json.loads((out / "path.json").read_text())["path"]
            known = known and len(told) <= len(whole)
        wrong = None if known else f"{len(said)} rows were written, {len(found)} are there"
        return Seen("every row that was written", wrong)

    yield attempt


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "path.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def same(found: list[dict[str, str]], wanted: list[dict[str, str]]) -> bool:
    """But for the seconds that they took."""
    return [{**row, "seconds": ""} for row in found] == [{**row, "seconds": ""} for row in wanted]


def weights(found: pn.Solution) -> str:
    total = hashlib.sha256()
    for tensor in found.network().state_dict().values():
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()


SAVE = Figure(
    name="kill-save",
    title="kill -9 while saving",
    promise="the old model or the new one, whole",
    checked=(
        "A process saves two models in turn as fast as it can, and is killed within about four saves; the folder must "
        "load, with the certificate that belongs to it, and be the last that was said to be saved, or the next."
    ),
    count=200,
    chunk=20,
    small=6,
    ready=saving,
)
SNAPSHOT = Figure(
    name="kill-snapshot",
    title="kill -9 while snapshotting",
    promise="goes on, and ends where it would have",
    checked=(
        "A run that keeps a snapshot every second step is killed up to three times at random moments and begun again; "
        "its network must be, bit by bit, that of a run that no one killed, and nothing may be left behind."
    ),
    count=200,
    chunk=20,
    small=3,
    ready=snapshotting,
)
PATH = Figure(
    name="kill-path",
    title="kill -9 in a path",
    promise="no row that was written is lost",
    checked=(
        "`provenet path` is killed at random moments; path.csv must hold every row that was finished, whole, with the "
        "numbers of a path that no one killed, and path.json must be readable."
    ),
    count=200,
    chunk=20,
    small=3,
    ready=walking,
)
