"""Work is not lost, and what is said of it is true: Ctrl-C, full disks, time limits, models that are worth keeping."""

from __future__ import annotations

import csv
import errno
import json
import signal
import subprocess
import sys
import time

import pytest

from provenet import report
from provenet.io import load

FAST = ("--gates", 20, "--no-report")


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_an_interruption_before_anything_is_saved(run, flowers, tmp_path, monkeypatch):
    monkeypatch.setattr("provenet.estimators.base.ProvenEstimator.fit", interrupt)
    answer = run("fit", flowers, "--target", "kind", "--cv", 2, "--out", "flowers")
    assert answer.code == 1
    assert "interrupted, and nothing was saved" in answer.err
    assert not (tmp_path / "flowers").exists()


def test_an_interruption_after_the_model_is_saved(run, flowers, tmp_path, monkeypatch):
    monkeypatch.setattr("provenet.report.report", interrupt)
    answer = run("fit", flowers, "--target", "kind", "--gates", 20, "--out", "flowers")
    assert answer.code == 1
    assert "interrupted, but the model is in flowers" in answer.err
    assert load(tmp_path / "flowers").certificate_.holds(1e-3)


INTERRUPTED_SAVE = """
import os, signal
from provenet import io
from provenet.cli import main

def interrupted(*args, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return save(*args, **options)

save, io.save = io.save, interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)  # what began in the background has it ignored
main()
"""


def test_ctrl_c_waits_for_a_save_and_tells_of_it(flowers, tmp_path):
    """In a process of its own: signals are the main thread's, which workers of tests may not be."""
    command = ["fit", str(flowers), "--target", "kind", "--gates", "20", "--no-report", "--out", "flowers"]
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_SAVE, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert child.returncode == 1
    assert "but the model is in flowers" in child.stderr
    load(tmp_path / "flowers")


@pytest.mark.parametrize("limit", [(), ("--max-seconds", 600)])
def test_ctrl_c_in_a_path_keeps_its_rows(run, flowers, tmp_path, monkeypatch, limit):
    from provenet.solvers import path

    def three(*args):
        for k, found in enumerate(along(*args)):
            if k == 3:
                raise KeyboardInterrupt
            yield found

    along = path.along
    monkeypatch.setattr("provenet.solvers.path.along", three)
    answer = run("path", flowers, "-t", "kind", "--gates", 10, "--betas", 6, "--json", *limit)
    assert answer.code == 1
    assert "interrupted after 3 of 6" in answer.err
    with (tmp_path / "path" / "path.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3
    assert json.loads((tmp_path / "path" / "path.json").read_text())["path"] == answer.json["path"]


def test_ctrl_c_while_importing_ends_in_a_line(flowers, tmp_path):
    code = "print(flush=True); from provenet.cli import main; main()"
    command = [sys.executable, "-c", code, "fit", str(flowers)]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.readline()
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert "Traceback" not in told
    if child.returncode == 2:  # a quick machine had done importing, and asks for the column to predict
        assert "say which column to predict" in told
    else:
        assert child.returncode == 1
        assert "interrupted, and nothing was saved" in told


def test_a_full_disk_at_the_report_keeps_the_model(run, flowers, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("provenet.report.page.write_atomically", full)
    answer = run("fit", flowers, "--target", "kind", "--gates", 20, "--out", "flowers")
    assert answer.code == 1
    assert "No space left" in answer.err
    assert "the model is in flowers" in answer.err
    assert load(tmp_path / "flowers").certificate_.holds(1e-3)


def test_what_is_not_certified_does_not_replace_what_is(run, model, flowers, tmp_path):
    short = ("fit", flowers, "-t", "kind", "--drop", "count", *FAST, "--beta", 1e-6, "--max-steps", 1)
    answer = run(*short, "-o", "flowers")
    assert answer.code == 1
    assert "does not replace without --force" in answer.err
    assert load(tmp_path / "flowers").certificate_.status == "certified"
    assert load(tmp_path / "flowers-uncertified").certificate_.status != "certified"
    assert run(*short, "-o", "flowers", "--force").code == 1
    assert load(tmp_path / "flowers").certificate_.status != "certified"


@pytest.mark.parametrize("command", ["fit", "path"])
def test_where_nothing_can_be_written_nothing_is_trained(run, flowers, command, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("provenet.files.tempfile.mkstemp", refuse)
    monkeypatch.setattr("provenet.estimators.base.ProvenEstimator.fit", interrupt)
    answer = run(command, flowers, "-t", "kind", "--out", "deep/down")
    assert answer.code == 1
    assert "deep/down: nothing can be written there (Permission denied)" in answer.err


def test_a_time_limit_is_the_whole_commands(run, flowers):
    began = time.perf_counter()
    options = ("--betas", 200, "--cv", 5, "--max-seconds", 1, "--tol", 1e-9, "--gates", 20, "--no-report", "--json")
    answer = run("fit", flowers, "-t", "kind", *options)
    assert time.perf_counter() - began < 15
    assert answer.json["certificate"]["beta"] == answer.json["beta"]
    assert "ended by max_seconds" in answer.err


def test_a_path_writes_as_it_goes_and_ends_in_time(run, flowers, tmp_path):
    began = time.perf_counter()
    answer = run("path", flowers, "-t", "kind", "--gates", 10, "--betas", 1_000_000, "--max-seconds", 1, "--json")
    assert time.perf_counter() - began < 30
    assert answer.code == 1
    assert "out of time after" in answer.err
    with (tmp_path / "path" / "path.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(answer.json["path"]) > 3


def test_ctrl_c_after_the_end_changes_nothing():
    """What comes while Python ends cannot turn a success into a failure."""
    code = (
        "import os, signal, sys; from provenet.cli import main; sys.argv[1:] = ['--version']\n"
        "try: main()\nfinally: os.kill(os.getpid(), signal.SIGINT)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("provenet ")


def test_ctrl_c_while_python_clears_up_is_not_lost():
    """In callbacks of weak references exceptions are dropped, and printed: it comes again, and nothing is printed."""
    code = """
import signal, time, weakref
from provenet import cli
signal.signal(signal.SIGINT, cli._end_at_once)
cli.ready_to_work()
class Thing: pass
thing = Thing()
gone = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
try:
    del thing
    for _ in range(1000): time.sleep(0.05)
except KeyboardInterrupt:
    print("came")
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "came\n", "")


def test_an_interruption_that_compiled_code_made_another_exception_of(run, flowers, monkeypatch):
    def broken(*_, **__):
        raise ValueError("Invalid affine transformation matrix")

    monkeypatch.setattr("provenet.estimators.base.ProvenEstimator.fit", broken)
    monkeypatch.setattr("provenet.cli._CAME", [signal.SIGINT])
    answer = run("fit", flowers, "--target", "kind")
    assert answer.code == 1
    assert "interrupted, and nothing was saved. (Invalid affine transformation matrix)" in answer.err


def test_ctrl_c_waits_for_the_report(run, flowers, tmp_path, monkeypatch):
    whole = report.report

    def interrupted_report(*args, **settings):
        signal.raise_signal(signal.SIGINT)
        return whole(*args, **settings)

    monkeypatch.setattr(report, "report", interrupted_report)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what began in the background has it ignored
    try:
        answer = run("fit", flowers, "--target", "kind", "--gates", 20, "--out", "flowers")
    finally:
        signal.signal(signal.SIGINT, before)
    assert answer.code == 1
    assert "interrupted, but the model is in flowers and the report is in flowers/report.html" in answer.err
    assert (tmp_path / "flowers" / "report.html").stat().st_size > 10_000
