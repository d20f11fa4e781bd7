"""Only files are read, and only what fits: told by headers, before anything is read."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from provenet.data.loading import Columns, load_dataset


def header_of(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    file = io.BytesIO()
    npy.write_array_header_2_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def archive(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def test_a_bomb_is_told_by_its_header(tmp_path, monkeypatch):
    monkeypatch.setattr("provenet.memory.available_bytes", lambda: 2**25)
    X = header_of((4, 2**20)) + bytes(8 * 4 * 2**20)
    path = archive(tmp_path / "bomb.npz", {"X.npy": X, "y.npy": header_of((4,)) + bytes(32)})
    assert path.stat().st_size < 2**16
    with pytest.raises(MemoryError, match=r"bomb\.npz: reading it needs 0\.0313 GiB"):
        load_dataset(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, suffix):
    lie = header_of((2**40, 4)) + bytes(64)
    path = tmp_path / f"lie{suffix}"
    if suffix == ".npz":
        archive(path, {"X.npy": lie, "y.npy": header_of((2,)) + bytes(16)})
    else:
        path.write_bytes(lie)
    with pytest.raises(ValueError, match="announces 35184372088832 bytes and has 64"):
        load_dataset(path, Columns([] if suffix == ".npz" else ["-1"]))


@pytest.mark.parametrize("name", ["data.csv", "data.npy", "data.npz", "data.parquet"])
def test_pipes_and_links_to_devices_are_not_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="a pipe, not a file"):
        load_dataset(tmp_path / name, Columns(["-1"]))
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(OSError, match="a device, not a file"):
        load_dataset(tmp_path / name, Columns(["-1"]))


def test_a_link_to_a_file_is_as_good_as_the_file(tmp_path):
    np.savez(tmp_path / "real.npz", X=np.eye(3), y=np.arange(3.0))
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    assert load_dataset(tmp_path / "link.npz").X.shape == (3, 3)


def test_a_table_too_large_for_memory_is_not_read(tmp_path):
    with (tmp_path / "hole.csv").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(MemoryError, match=r"hole\.csv: reading it needs"):
        load_dataset(tmp_path / "hole.csv", Columns(["-1"]))
