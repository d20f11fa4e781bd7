"""A run in a folder: what was asked for, the stages that are done, and where the one in work stands.

Every file is written whole or not at all, by the first process where there are several, so a run that is killed at any
moment goes on from its last epoch:

    run.json               settings and the digests of the data
    stage-1.safetensors    a stage that is done: tensors, and as metadata what it is and what is known of it
    epoch.safetensors      the stage in work, after an epoch
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from provenet.certificates import Certificate
from provenet.files import write_atomically
from provenet.layerwise.minibatch import Training
from provenet.layerwise.stage import TrainedStage
from provenet.nn import Stage
from provenet.nn.rebuild import describe, rebuild
from provenet.ranks.context import by_first, restart_count, sent_by_first, torchrun_name

_FORMAT = "provenet-layerwise-run"
_VERSION = 1
_RUN, _EPOCH, _CACHE = "run.json", "epoch.safetensors", "cache"


class Checkpoint:
    """``asked``: everything that decides the result, ready for JSON."""

    def __init__(self, folder: Path, asked: Mapping[str, Any]):
        self.folder = folder
        self._of = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    @staticmethod
    def open(folder: Path, asked: dict[str, Any], resume: bool) -> Checkpoint:
        """A new run in the folder, or the one that is there, if it was asked for the same."""
        asked = json.loads(json.dumps(asked))  # tuples are lists in a file
        by_first(partial(_begin, folder, asked, resume))
        return Checkpoint(folder, asked)

    @property
    def cache(self) -> Path:
        return self.folder / _CACHE

    def stage(self, number: int) -> TrainedStage | None:
        """A stage that is done, from one on; None: it is not."""
        read = self._read(f"stage-{number}.safetensors")
        if read is None:
            return None
        told, tensors = read
        known = dict(told["known"])
        certificate = None if known["certificate"] is None else Certificate.from_dict(known["certificate"])
        known |= {"certificate": certificate, "shape": tuple(known["shape"])}
        return TrainedStage(module=rebuild(told["stage"], tensors), **known)

    def keep_stage(self, number: int, stage: TrainedStage) -> None:
        told = {"stage": describe(stage.module), "known": stage.to_dict()}
        self._write(f"stage-{number}.safetensors", told, stage.module.state_dict())
        by_first(lambda: (self.folder / _EPOCH).unlink(missing_ok=True))

    def training(self, number: int, stage: Stage) -> Training | None:
        """Where stage ``number`` stands; ``stage`` says how its inputs are prepared."""
        read = self._read(_EPOCH)
        if read is None or read[0]["number"] != number:
            return None
        told, tensors = read
        module = rebuild(told["stage"], tensors)
        optimiser = {name.removeprefix("optimiser."): t for name, t in tensors.items() if name.startswith("optimiser.")}
        at = told["at"]
        return Training(module.network, optimiser=optimiser, **at)

    def keep_training(self, number: int, stage: Stage, at: Training) -> None:
        """``stage``: with the training's network in it."""
        tensors = stage.state_dict() | {f"optimiser.{name}": t for name, t in at.optimiser.items()}
        numbers = {name: getattr(at, name) for name in ("epoch", "seconds", "loss", "score", "cpu")}
        self._write(_EPOCH, {"number": number, "stage": describe(stage), "at": numbers}, tensors)

    def _write(self, name: str, told: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        metadata = {"of": self._of, "told": json.dumps(told)}
        whole = {key: value.detach().contiguous() for key, value in tensors.items()}
        by_first(lambda: write_atomically(self.folder / name, safetensors.torch.save(whole, metadata)))

    def _read(self, name: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        path = self.folder / name
        content = sent_by_first(partial(_content, path))
        if content is None:
            return None
        try:
            metadata = _metadata(content)
            tensors = safetensors.torch.load(content)
            if metadata["of"] != self._of:
                raise ValueError("it is of another run")
            return json.loads(metadata["told"]), tensors
        except (SafetensorError, ValueError, KeyError, struct.error) as error:
            raise ValueError(f"{path}: it is damaged ({error}); delete it, and resume from what is left.") from None


def _begin(folder: Path, asked: dict[str, Any], resume: bool) -> None:
    """A new run, or the one that is there; one of these processes' own start, where torchrun has restarted them."""
    path, me = folder / _RUN, torchrun_name()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"checkpoint: {folder} is a file; a folder is needed.")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        written = {"format": _FORMAT, "version": _VERSION, "asked": asked, "begun_by": me}
        write_atomically(path, (json.dumps(written, indent=2, ensure_ascii=False) + "\n").encode())
        return
    found = _read_json(path)
    restarted = restart_count() > 0 and me == found.get("begun_by")
    if not (resume or restarted):
        raise FileExistsError(f"{folder}: it holds a run; resume it (resume=True, --resume), or choose another folder.")
    if found.get("format") != _FORMAT or found.get("version") != _VERSION:
        raise ValueError(f"{path}: it is no run that this provenet can resume.")
    different = differences(found.get("asked", {}), asked)
    if different:
        raise ValueError(f"resume: {folder} holds a run with other settings: {'; '.join(different)}.")
    shutil.rmtree(folder / _CACHE, ignore_errors=True)  # of processes that were killed


def differences(before: Any, now: Any, where: str = "") -> list[str]:
    """In what two settings differ, by name, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        prefix = f"{where}." if where else ""
        return [word for name in names for word in differences(before.get(name), now.get(name), f"{prefix}{name}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [word for i, (a, b) in pairs if a != b for word in differences(a, b, f"{where}[{i}]")]
    return [f"{where} was {_short(before)}, now {_short(now)}"]


def _content(path: Path) -> bytes | None:
    """Of a file; None: it is not there."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata in the header of a safetensors file."""
    (length,) = struct.unpack_from("<Q", content)
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: it is not valid JSON ({error}).") from None
    return found if isinstance(found, dict) else {}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
