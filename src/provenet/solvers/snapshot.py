"""A run in a folder, so that one that is killed goes on from its last snapshot.

    with provenet.snapshots("folder", every=50):
        solution = provenet.solve(problem)      # or an estimator's fit, or these after a restart

    snapshot.json                  what the run stands at, the digests of the other files and its own; written last
    state-STEP.safetensors         neurons, what the method remembers, A*Θ of the dual points that are mixed
    rows-STEP-RANK.safetensors     dual points, shard by shard, of each process

Every file is whole or not there, and all of the last snapshot stay until the next one counts.  Shards do not hang on
the number of processes, so another number of them can go on.  Where several work together they must see one folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from provenet import ranks
from provenet.files import write_atomically
from provenet.problem import Program
from provenet.variable import Factors
from provenet.vectors import unit

_FORMAT, _VERSION = "provenet-snapshot", 4
_INDEX = "snapshot.json"
_OURS = re.compile(r"^(state|rows)-(\d+)(-\d+)?\.safetensors$")
_PROBES = 4
_SAME = 1e-9  # of the largest entry: two answers of one program, on any machine


class Snapshots:
    """every: steps between two."""

    def __init__(self, folder: Path, every: int):
        self.folder, self.every = folder, every
        self._last, self._told = 0, False
        self._answer: Tensor | None = None

    def is_due(self, step: int) -> bool:
        return step - self._last >= self.every

    def begin(self, program: Program, method: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Where the run stood that was killed, None: nothing is there, or this is not the first run since.

        ValueError, with the reason, where it is damaged or another's."""
        again, self._answer = self._answer is not None, _answer_of(program)
        if again:
            return None
        index = _first_says(lambda: _read_index(self.folder / _INDEX))
        if index is None:
            return None
        if "error" in index:
            raise ValueError(index["error"])
        own = program.operator.shards.own
        tensors = dict(self._load(f"state-{index['step']}.safetensors", index["files"]))
        there = tensors.pop("answer")
        alike = there.shape == self._answer.shape and index["method"] == method
        if not alike or float((there - self._answer).abs().max()) > _SAME * float(self._answer.abs().max()):
            raise ValueError(
                f"snapshots: {self.folder} holds those of another problem or method; delete it, or choose another "
                "folder."
            )
        parts: dict[str, list[Tensor]] = {}
        for name, (first, last) in index["rows"].items():
            shards = [shard for shard in own if first <= shard < last]
            rows = self._load(name, index["files"]) if shards else {}
            for point in range(index["points"]):
                parts.setdefault(f"theta.{point}", []).extend(rows[f"{point}.{shard}"] for shard in shards)
        self._last = int(index["step"])
        return index["told"], tensors | {name: torch.cat(rows) for name, rows in parts.items()}

    def keep(self, program: Program, method: str, step: int, told: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Where a run stands after so many steps; tensors named ``theta.…`` are of this process's samples.  What cannot
        be written is told of, and the run goes on."""
        self._last, shards = step, program.operator.shards
        group = ranks.current()
        rank = 0 if group is None else group.rank
        points = [name for name in tensors if name.startswith("theta.")]
        rows = {
            f"{name.removeprefix('theta.')}.{shard}": tensors[name][piece]
            for shard, piece in zip(shards.own, shards.slices, strict=True)
            for name in points
        }
        new = {f"rows-{step}-{rank}.safetensors": rows}
        if rank == 0:
            state = {name: tensor for name, tensor in tensors.items() if name not in points}
            assert self._answer is not None
            new[f"state-{step}.safetensors"] = state | {"answer": self._answer}
        mine: dict[str, Any] = {"files": {}, "rows": [shards.own.start, shards.own.stop], "error": None}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, content in new.items():
                mine["files"][name] = self._write(name, content)
        except OSError as error:
            mine["error"] = str(error)
        said = [mine] if group is None else group.told(mine)
        errors = [one["error"] for one in said if one["error"] is not None]
        if rank == 0 and not errors:
            index = {
                "format": _FORMAT,
                "version": _VERSION,
                "step": step,
                "method": method,
                "points": len(points),
                "rows": {f"rows-{step}-{r}.safetensors": one["rows"] for r, one in enumerate(said)},
                "files": {name: digest for one in said for name, digest in one["files"].items()},
                "told": told,
            }
            index["digest"] = _digest(index)
            try:
                write_atomically(self.folder / _INDEX, json.dumps(index).encode())
            except OSError as error:
                errors = [str(error)]
        if errors:
            self._clear(lambda at: at == step, new)
            if rank == 0 and not self._told:
                self._told = True
                warnings.warn(
                    f"snapshots: at step {step} none was written ({errors[0]}); the run goes on.", stacklevel=2
                )
        elif rank == 0:
            self._clear(lambda at: at < step)

    def done(self) -> None:
        """There is nothing to go on with."""
        (self.folder / _INDEX).unlink(missing_ok=True)
        self._clear(lambda _: True)
        with suppress(OSError):  # a folder that holds other things stays
            self.folder.rmdir()

    def _clear(self, old: Any, names: Any = None) -> None:
        if not self.folder.is_dir():
            return
        for path in self.folder.iterdir():
            ours = _OURS.match(path.name)
            if ours and old(int(ours[2])) and (names is None or path.name in names):
                path.unlink(missing_ok=True)

    def _write(self, name: str, tensors: dict[str, Tensor]) -> str:
        content = safetensors.torch.save({key: tensor.detach().contiguous() for key, tensor in tensors.items()})
        write_atomically(self.folder / name, content)
        return hashlib.sha256(content).hexdigest()

    def _load(self, name: str, files: dict[str, str]) -> dict[str, Tensor]:
        path = self.folder / name
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != files.get(name):
                raise ValueError("its digest is another")
            found = safetensors.torch.load(content)
            return {name: tensor.clone() for name, tensor in found.items()}  # in memory as a run has it: see `resumed`
        except (OSError, SafetensorError, ValueError) as error:
            raise ValueError(
                f"{path}: this part of a snapshot cannot be read ({error}); delete {self.folder} to begin anew."
            ) from None


_CURRENT: ContextVar[Snapshots | None] = ContextVar("snapshots", default=None)


def current() -> Snapshots | None:
    return _CURRENT.get()


@contextmanager
def snapshots(folder: str | PathLike[str], every: int = 50) -> Iterator[None]:
    """While this lasts, a run of a method that can ("lbfgs") keeps where it stands, and the first one begins where one
    that was killed stood.  What is there is removed when all has gone well.

    Parameters
    ----------
    folder : path
        Where snapshots lie.
    every : int, default 50
        Steps between two of them.
    """
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every: it must be a whole number of steps from 1 on, got {every!r}.")
    kept = Snapshots(Path(folder), every)
    token = _CURRENT.set(kept)
    try:
        yield
    finally:
        _CURRENT.reset(token)
    group = ranks.current()
    if group is not None:
        group.wait()
    if group is None or group.is_first:
        kept.done()


@contextmanager
def no_snapshots() -> Iterator[None]:
    """What runs in here is part of a step of another run, and keeps none."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _first_says(read: Any) -> Any:
    group = ranks.current()
    if group is None:
        return read()
    return group.first_says(read() if group.is_first else None)


def _read_index(path: Path) -> dict[str, Any] | None:
    try:
        index = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return {"error": f"{path}: it cannot be read ({error}); delete {path.parent} to begin anew."}
    if not isinstance(index, dict) or index.get("format") != _FORMAT or index.get("version") != _VERSION:
        return {"error": f"{path}: it is no snapshot that this provenet can go on from."}
    if index.get("digest") != _digest(index):  # bounds that a certificate may rest on are in it
        return {"error": f"{path}: it was changed after it was written; delete {path.parent} to begin anew."}
    return index


def _digest(index: dict[str, Any]) -> str:
    """Of all but the digest itself."""
    rest = {name: value for name, value in index.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _answer_of(program: Program) -> Tensor:
    """(G v, Gᵀu) of some neurons, G = A*(∇L(0) + noise): what tells the program of one problem from another's."""
    op, loss = program.operator, program.loss
    gates = op.space.arange(_PROBES) * op.n_gates // _PROBES
    left, right = (unit(op.space.randn(_PROBES, size, seed=size)) for size in (op.p, op.q))
    noise = op.space.move(op.shards.randn(*op.output_shape, seed=0))
    slope = loss.gradient(torch.zeros_like(loss.target))
    sides = op.adjoint_factors(slope + noise, Factors(left, right, gates))
    return torch.cat([*sides, torch.full((_PROBES, 1), program.beta, dtype=torch.float64)], dim=1)
