"""Ctrl-C at random moments of `provenet fit`, `fit --cv` and `path`: what is said must be so."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

import provenet as pn
from provenet.cli import main
from provenet.cli.rejudged import rejudged
from provenet.io import posed_data
from trust.figure import Figure, Seen, Try
from trust.forks import forked

BETAS = 6
COMMANDS = {
    "fit": "fit table.csv -t y --gates 12 --beta 0.003max --tol 1e-6",
    "cv": "fit table.csv -t y --gates 6 --cv 3 --betas 3 --no-report",
    "path": f"path table.csv -t y --gates 6 --betas {BETAS}",
}
BY_ITSELF = 5  # each fifth is a process that has to import everything first
STARTED = "import sys; print(flush=True); from provenet.cli import main; sys.argv[0] = 'provenet'; main()"
Ended = tuple[int, str]


@contextmanager
def ready(folder: Path) -> Iterator[Try]:
    X = np.random.default_rng(3).standard_normal((40, 3))
    lines = [f"{a},{b},{c},{'yes' if a * b > c else 'no'}\n" for a, b, c in X]
    (folder / "table.csv").write_text("a,b,c,y\n" + "".join(lines))
    before = os.getcwd()
    os.chdir(folder)
    y = np.where(X[:, 0] * X[:, 1] > X[:, 2], "yes", "no")
    seconds = cache(_seconds)

    def attempt(case: int) -> Seen:
        rng = np.random.default_rng([case, 7])
        name, alone = list(COMMANDS)[case % 3], case % BY_ITSELF == 0
        after = rng.uniform(0.0, 1.05 * seconds(name, alone))
        code, said = ran(name, alone, after)
        word, wrong = judge_path(code, said) if name == "path" else judge_fit(code, said, X, y)
        left = [each for each in os.listdir("out") if ".tmp-" in each] if os.path.isdir("out") else []
        if wrong is None and left:
            wrong = f"{left} stay behind"
        return Seen(word, None if wrong is None else f"{name}, {code}: {wrong}: {said[-600:]!r}")

    try:
        yield attempt
    finally:
        os.chdir(before)


def _seconds(name: str, alone: bool) -> float:
    """That the command takes if no one interrupts it."""
    began = time.perf_counter()
    code, said = ran(name, alone, None)
    if code != 0:
        raise RuntimeError(f"{name} does not end well by itself: {said}")
    return time.perf_counter() - began


def ran(name: str, alone: bool, after: float | None) -> Ended:
    """Exit code and output of a command that gets a SIGINT so many seconds after it began."""
    shutil.rmtree("out", ignore_errors=True)
    arguments = [*COMMANDS[name].split(), "--out", "out"]
    if alone:
        child = subprocess.Popen(
            [sys.executable, "-c", STARTED, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_heeding,
        )
        assert child.stdout is not None
        child.stdout.readline()
        _interrupt(child.pid, after)
        said = child.stdout.read()
        return child.wait(), said
    sys.argv = ["provenet", *arguments]
    number = forked(_main, Path("said"))
    _interrupt(number, after)
    _, status = os.waitpid(number, 0)
    return os.waitstatus_to_exitcode(status), Path("said").read_text(encoding="utf-8")


def _heeding() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what begins in the background has it ignored


def _main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _interrupt(number: int, after: float | None) -> None:
    if after is not None:
        time.sleep(after)
        os.kill(number, signal.SIGINT)


def judge_fit(code: int, said: str, X: np.ndarray, y: np.ndarray) -> tuple[str, str | None]:
    """A word for what came of it, and what is not as it was said to be."""
    there = Path("out", "model.json").exists()
    if "Traceback" in said or code not in (0, 1):
        return "crashed", "a traceback"
    if "nothing was saved" in said:
        return "nothing saved, and nothing there", "there is a model" if there else None
    if "model is in out" not in said and not re.search(r"^model +out$", said, re.MULTILINE):
        return "said nothing", "whether there is a model is not said"
    model = pn.load("out")
    posed = posed_data(model, X, y)
    found = rejudged(model.saved_, model.saved_.problem(*posed), posed)
    if found.contradictions:
        return "false", "; ".join(found.contradictions)
    if code == 0:
        return "done before it came", None if found.holds else "exit code 0, but the certificate does not hold"
    return "the model is there, as was said", None


def judge_path(code: int, said: str) -> tuple[str, str | None]:
    """Likewise of a path."""
    table = Path("out", "path.csv")
    if "Traceback" in said or code not in (0, 1):
        return "crashed", "a traceback"
    if "nothing was saved" in said:
        return "nothing saved, and nothing there", "there is a path" if table.exists() else None
    if not table.exists():
        return "said nothing", "there is no path"
    with table.open(newline="") as file:
        rows = len(list(csv.DictReader(file)))
    if found := re.search(r"interrupted after (\d+) of \d+", said):
        return "the rows are there, as was said", None if rows == int(found[1]) else f"{rows} rows are there"
    if "the path is in out" in said:
        return "the rows are there, as was said", None if rows else "no rows are there"
    whole = code == 0 and rows == BETAS
    return "done before it came", None if whole else f"{rows} rows, and no word of an interruption"


FIGURE = Figure(
    name="ctrl-c",
    title="Ctrl-C at random moments of fit, CV and path",
    promise="a truthful message, and the model loads where it says so",
    checked=(
        "`provenet fit`, `fit --cv` and `path` in turn get one SIGINT at a moment drawn from all that they take, every "
        "fifth in a process that begins with its imports: no traceback; where it says that nothing was saved there is "
        "nothing; where it names a model that loads and its certificate, computed anew, is what it said; a path has as "
        "many rows as it tells; exit code 0 only with a certificate that holds; no temporary files stay."
    ),
    count=100,
    chunk=5,
    small=2,
    ready=ready,
)
