"""A model folder has a whole model at every moment, whoever is killed, and what they leave is cleaned up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from provenet import files
from provenet.io import folder as format_

FILES = ("model.json", "model.safetensors", "certificate.json")


def write(folder: Path, number: int) -> None:
    format_.write_folder(folder, {"number": number}, bytes(200_000), {"number": number})


def number_in(folder: Path) -> int:
    header, _, certificate = format_.read_folder(folder)
    assert header["number"] == certificate["number"]
    return int(header["number"])


def each_moment() -> list[str]:
    return ["write 0", "write 1", "write 2", "before rename", "after rename", "move 0", "move 1", "move 2"]


@pytest.mark.parametrize("moment", each_moment())
def test_the_old_model_or_the_new_whenever_a_save_ends(moment, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    write(folder, 1)
    reached = iter(range(100))
    moved = iter(range(100))
    write_file, rename, replace = format_.write_atomically, os.rename, os.replace

    class Killed(BaseException):
        """What no one catches: `except BaseException` must not tidy up, as kill -9 would not."""

    def end(here: str) -> None:
        if here == moment:
            raise Killed

    def stop_writing(path: Path, content: bytes) -> None:
        end(f"write {next(reached)}")
        write_file(path, content)

    def stop_renaming(old: Path, new: Path) -> None:
        end("before rename")
        rename(old, new)
        end("after rename")

    def stop_moving(old: Path, new: Path) -> None:
        if Path(new).parent == folder:
            end(f"move {next(moved)}")
        replace(old, new)

    monkeypatch.setattr(format_, "write_atomically", stop_writing)
    monkeypatch.setattr(format_.os, "rename", stop_renaming)
    monkeypatch.setattr(format_.os, "replace", stop_moving)
    monkeypatch.setattr(format_.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(Killed):
        write(folder, 2)
    monkeypatch.undo()
    committed = moment == "after rename" or moment.startswith("move")
    assert number_in(folder) == (2 if committed else 1)
    write(folder, 3)
    assert number_in(folder) == 3


def saving_forever(folder: Path, say: int) -> None:
    number = 0
    while True:
        number += 1
        write(folder, number)
        os.write(say, f"{number}\n".encode())


def test_kill_9_in_a_tight_loop_of_saves(tmp_path):
    """The real thing, some times; what was said to be written is there."""
    folder = tmp_path / "model"
    for pause in np.linspace(0.0, 0.05, 10):
        hear, say = os.pipe()
        child = os.fork()
        if child == 0:
            saving_forever(folder, say)
        os.close(say)
        with os.fdopen(hear) as lines:
            said = int(lines.readline())
            time.sleep(pause)
            os.kill(child, signal.SIGKILL)
            said = max([said, *map(int, lines.read().split())])
        os.waitpid(child, 0)
        assert number_in(folder) in (said, said + 1)
    write(folder, 1)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)


def test_what_the_dead_left_is_swept_and_what_the_living_write_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    machine = files._machine()
    (tmp_path / f".a.tmp-{machine}-{gone.pid}-x").write_text("of a dead writer")
    (tmp_path / f".b.tmp-{machine}-{gone.pid}-x").mkdir()
    (tmp_path / f".c.tmp-{machine}-{os.getpid()}-x").write_text("of a living one")
    (tmp_path / f".d.tmp-{machine + 1}-{gone.pid}-x").write_text("of another machine")
    (tmp_path / ".hidden").write_text("of the user")
    files.write_atomically(tmp_path / "report.html", b"new")
    left = {path.name[:2] for path in tmp_path.iterdir()}
    assert left == {".c", ".d", ".h", "re"}


@pytest.mark.parametrize("name", FILES)
def test_links_in_a_model_folder_are_not_followed(name, tmp_path):
    write(tmp_path / "model", 1)
    path = tmp_path / "model" / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a link"):
        format_.read_folder(tmp_path / "model")


def test_a_pipe_is_not_waited_for(tmp_path):
    write(tmp_path / "model", 1)
    (tmp_path / "model" / "certificate.json").unlink()
    os.mkfifo(tmp_path / "model" / "certificate.json")
    with pytest.raises(OSError, match="a pipe, not a file"):
        format_.read_folder(tmp_path / "model")


def test_what_does_not_fit_is_not_read(tmp_path):
    write(tmp_path / "model", 1)
    with (tmp_path / "model" / "model.safetensors").open("r+b") as file:
        file.truncate(2**40)  # a hole: nothing on the disk
    with pytest.raises(MemoryError, match=r"model\.safetensors: reading it needs .* GiB"):
        format_.read_folder(tmp_path / "model")
