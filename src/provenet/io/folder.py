"""The files of a model folder: written so that there is always a whole model, the old or the new, and read so that
damage is noticed.

A save writes all its files into a temporary folder inside the model's.  Renaming that to ``.next`` is the moment from
which on the new model counts; then its files move to their places.  Who is killed before it leaves the old model, who
is killed after it the new one: a reader takes each file from ``.next`` where it is still there.  ``model.json`` holds
the digests of the other files and of itself.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from provenet.files import check_regular, flush_directory, read_regular, temporary_folder, write_atomically
from provenet.memory import check_fits

FORMAT = "provenet-model"
VERSIONS = (1, 2, 3)  # 2: with a free intercept, 3: of standardised data; older readers would leave them out
MODEL, TENSORS, CERTIFICATE, REPORT = "model.json", "model.safetensors", "certificate.json", "report.html"
_NEXT = ".next"  # a model whose files are on their way to their places
_TRIES = 5  # while others save into the same folder
_COPIES = 3  # of a file in memory: its bytes, the tensors, the network


def write_folder(folder: Path, header: dict[str, Any], tensors: bytes, certificate: dict[str, Any]) -> None:
    """Write the folder; whatever model was there before is replaced, and its report removed."""
    check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {TENSORS: tensors, CERTIFICATE: _dump(certificate)}
    header = {"format": FORMAT, "version": VERSIONS[0]} | header
    header["files"] = {name: _sha256(content) for name, content in files.items()}
    header["digest"] = _digest(header)
    files[MODEL] = _dump(header)
    staged = temporary_folder(folder / "model")
    try:
        for name, content in files.items():
            write_atomically(staged / name, content)
        _commit(staged, folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    _settle(folder)


def read_folder(folder: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """(header, tensors, certificate) of a folder whose every digest agrees."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder; a model is a folder with {MODEL} in it.")
    for _ in range(_TRIES):
        before = _stamp(folder)
        try:
            return _read_folder(folder)
        except (ValueError, FileNotFoundError):
            if _stamp(folder) == before:  # no one was saving meanwhile: it is damaged
                raise
    raise OSError(f"{folder}: another process keeps saving into it; try again.")


def _read_folder(folder: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    header = _parse(folder / MODEL, _read(folder, MODEL))
    _check_header(folder / MODEL, header)
    contents = {}
    for name in (TENSORS, CERTIFICATE):
        contents[name] = _read(folder, name)
        if _sha256(contents[name]) != header["files"].get(name):
            raise ValueError(
                f"{folder / name}: it is not the file that {MODEL} describes (edited, truncated or swapped)."
            )
    return header, contents[TENSORS], _parse(folder / CERTIFICATE, contents[CERTIFICATE])


def holds_certified(folder: Path) -> bool:
    """Whether there is a whole model with a certificate that says it holds."""
    try:
        return read_folder(folder)[2].get("status") == "certified"
    except (ValueError, OSError):
        return False


def _commit(staged: Path, folder: Path) -> None:
    """The one moment: ``staged`` becomes what the folder holds."""
    for _ in range(_TRIES):
        _settle(folder)  # another's save that was cut short, or is at it
        try:
            os.rename(staged, folder / _NEXT)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            flush_directory(folder)
            return
    raise OSError(f"{folder}: another process keeps saving into it; choose another folder.")


def _settle(folder: Path) -> None:
    """Bring the files of ``.next``, if there is one, to their places."""
    following = folder / _NEXT
    if not following.is_dir():
        return
    (folder / REPORT).unlink(missing_ok=True)  # of the model before
    for name in (TENSORS, CERTIFICATE, MODEL):
        with suppress(FileNotFoundError):  # it is in its place
            os.replace(following / name, folder / name)
    with suppress(OSError):  # a newer one is there already
        following.rmdir()
    flush_directory(folder)


def _stamp(folder: Path) -> list[tuple[str, int, int]]:
    """What changes when someone saves."""
    found = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            status = entry.stat(follow_symlinks=False)
            found.append((entry.name, status.st_ino, status.st_mtime_ns))
    return sorted(found)


def check_replaceable(folder: Path) -> None:
    """A folder that holds other things than a model is not ours to write into."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: it is a file; a model needs a folder.")
    if not folder.is_dir():
        return
    if (folder / _NEXT / MODEL).exists():
        return
    if (folder / MODEL).exists():
        if FORMAT.encode() not in read_regular(folder / MODEL, links=False):
            raise FileExistsError(f"{folder / MODEL}: it is not provenet's; choose another folder.")
        return
    ours = {TENSORS, CERTIFICATE, REPORT}
    foreign = sorted(p.name for p in folder.iterdir() if p.name not in ours and not p.name.startswith("."))
    if foreign:
        raise FileExistsError(f"{folder}: it holds other files ({foreign[0]}, …) and no model; choose another folder.")


def _check_header(path: Path, header: dict[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise ValueError(f"{path}: it is not a model of provenet (format {header.get('format')!r}).")
    if header.get("version") not in VERSIONS or isinstance(header["version"], bool):
        known = f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}"
        raise ValueError(
            f"{path}: its format version is {header.get('version')!r}; this provenet reads versions {known}. "
            "Install the provenet that wrote it, or save the model again."
        )
    if header.get("digest") != _digest(header):
        raise ValueError(f"{path}: it was changed after it was written (its digest does not agree).")
    if not isinstance(header.get("files"), dict):
        raise ValueError(f"{path}: the digests of the other files are missing.")


def _read(folder: Path, name: str) -> bytes:
    """A file that no link stands for, and that fits into memory with what is made of it."""
    if (folder / _NEXT).is_symlink():
        raise OSError(f"{folder / _NEXT}: it is a link, which is not followed here; remove it.")
    for path in (folder / _NEXT / name, folder / name):
        with suppress(FileNotFoundError):
            needed = _COPIES * check_regular(path, links=False)
            check_fits(needed, f"{path}: reading it", "Load the model on a machine with more memory.")
            return read_regular(path, links=False)
    raise FileNotFoundError(f"{folder / name}: it is missing, so {folder} is no (complete) model.")


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it is not valid JSON ({error}).") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(value).__name__}.")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number JSON knows")


def _dump(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _digest(header: dict[str, Any]) -> str:
    """Of all the header's values but the digest itself, however they are laid out."""
    rest = {name: value for name, value in header.items() if name != "digest"}
    return _sha256(json.dumps(rest, sort_keys=True, ensure_ascii=True, allow_nan=False).encode("ascii"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
