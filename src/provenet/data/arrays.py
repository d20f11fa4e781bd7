"""NPY and NPZ files: their sizes are checked against their headers and the memory before anything is read."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from provenet.files import check_regular
from provenet.memory import check_fits

_ADVICE = "Store fewer samples, or read it on a larger machine."


def read_array(path: Path) -> NDArray[Any]:
    """The array of an NPY file."""
    size = check_regular(path)
    return _checked(path, lambda: _one(path, size))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an NPZ file by name."""
    check_regular(path)
    return _checked(path, lambda: _all(path))


def _one(path: Path, size: int) -> NDArray[Any]:
    with path.open("rb") as file:
        check_fits(_checked_bytes(path.name, file, size), f"{path}: reading it", _ADVICE)
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _all(path: Path) -> dict[str, NDArray[Any]]:
    """What a few kilobytes of zeros can blow up to is told by the headers: of the archive, and of each array."""
    with zipfile.ZipFile(path) as archive:
        needed = 0
        for entry in archive.infolist():
            with archive.open(entry) as file:
                needed += _checked_bytes(entry.filename, file, entry.file_size)
        check_fits(needed, f"{path}: reading it", _ADVICE)
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _checked_bytes(name: str, file: IO[bytes], size: int) -> int:
    """Bytes of the array that a header announces; ValueError where the file has others."""
    version = npy.read_magic(file)
    read: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{name} has version {version} of the format")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not opened")
    told = math.prod(shape) * dtype.itemsize
    if told != size - file.tell():
        raise ValueError(f"{name} announces {told} bytes and has {size - file.tell()}")
    return int(told)


def _checked(path: Path, load: Any) -> Any:
    try:
        return load()
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"{path}: it is not a readable {path.suffix[1:].upper()} file ({error}).") from None
