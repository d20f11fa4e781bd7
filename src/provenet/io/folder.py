"""The files of a model folder: written so that a crash leaves no half model, read so that damage is noticed.

``model.json`` is written last and holds the digests of the other files and of itself: a folder without it, or whose
files are not those it names, is no model.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from provenet.files import write_atomically

FORMAT = "provenet-model"
VERSIONS = (1, 2)  # 2: with a free intercept, which older readers would leave out
MODEL, TENSORS, CERTIFICATE, REPORT = "model.json", "model.safetensors", "certificate.json", "report.html"


def write_folder(folder: Path, header: dict[str, Any], tensors: bytes, certificate: dict[str, Any]) -> None:
    """Write the folder; whatever model was there before is replaced, and its report removed."""
    check_replaceable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).unlink(missing_ok=True)  # from here until the new one is written, the folder is no model
    (folder / REPORT).unlink(missing_ok=True)
    files = {TENSORS: tensors, CERTIFICATE: _dump(certificate)}
    for name, content in files.items():
        write_atomically(folder / name, content)
    header = {"format": FORMAT, "version": VERSIONS[0]} | header
    header["files"] = {name: _sha256(content) for name, content in files.items()}
    header["digest"] = _digest(header)
    write_atomically(folder / MODEL, _dump(header))


def read_folder(folder: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """(header, tensors, certificate) of a folder whose every digest agrees."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder; a model is a folder with {MODEL} in it.")
    header = _parse(folder / MODEL, _read(folder / MODEL))
    _check_header(folder / MODEL, header)
    contents = {}
    for name in (TENSORS, CERTIFICATE):
        contents[name] = _read(folder / name)
        if _sha256(contents[name]) != header["files"].get(name):
            raise ValueError(
                f"{folder / name}: it is not the file that {MODEL} describes (edited, truncated or swapped)."
            )
    return header, contents[TENSORS], _parse(folder / CERTIFICATE, contents[CERTIFICATE])


def check_replaceable(folder: Path) -> None:
    """A folder that holds other things than a model is not ours to write into."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder}: it is a file; a model needs a folder.")
    if not folder.is_dir():
        return
    if (folder / MODEL).exists():
        if FORMAT.encode() not in (folder / MODEL).read_bytes():
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
        known = " and ".join(map(str, VERSIONS))
        raise ValueError(
            f"{path}: its format version is {header.get('version')!r}; this provenet reads versions {known}. "
            "Install the provenet that wrote it, or save the model again."
        )
    if header.get("digest") != _digest(header):
        raise ValueError(f"{path}: it was changed after it was written (its digest does not agree).")
    if not isinstance(header.get("files"), dict):
        raise ValueError(f"{path}: the digests of the other files are missing.")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: it is missing, so {path.parent} is no (complete) model.") from None


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
