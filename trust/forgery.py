"""Model files changed by someone who knows the format, and gives them digests that agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import safetensors.torch
import torch

from trust.figure import pick

HEADER, TENSORS, CERTIFICATE = "model.json", "model.safetensors", "certificate.json"
JUNK: list[Any] = [None, True, -1, 0, 2, 1e300, -1e-300, "", "words", [], [1], [None], {}, {"a": 1}, {"list": 3}, 2**70]


def forged(rng: np.random.Generator, whole: dict[str, bytes]) -> tuple[str, dict[str, bytes]]:
    """What was changed, and the files."""
    files = dict(whole)
    how = pick(rng, ["header", "certificate", "tensors", "bytes"])
    if how in ("header", "certificate"):
        name = HEADER if how == "header" else CERTIFICATE
        record = json.loads(whole[name])
        word = change(rng, record)
        files[name] = json.dumps(record).encode()
        how = f"{name} {word}"
    elif how == "tensors":
        tensors = safetensors.torch.load(whole[TENSORS])
        how = f"{TENSORS} {change_tensors(rng, tensors)}"
        files[TENSORS] = safetensors.torch.save(tensors)
    else:
        content = bytearray(whole[TENSORS])
        for place in rng.integers(len(content), size=int(rng.integers(1, 5))):
            content[place] ^= 1 << int(rng.integers(8))
        files[TENSORS] = bytes(content)
    return how, files if files == whole else sealed(files)


def sealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """With digests that agree, where the header still has a place for them."""
    header = json.loads(files[HEADER])
    header["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in (TENSORS, CERTIFICATE)}
    rest = {name: value for name, value in header.items() if name != "digest"}
    header["digest"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return files | {HEADER: json.dumps(header).encode()}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path into a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*at, key)
        yield from places(part, (*at, key))


def change(rng: np.random.Generator, record: dict[str, Any]) -> str:
    """One value of a JSON record: another number of its kind, junk, another's value, or none at all."""
    known = list(places(record))
    place = pick(rng, known)
    parent: Any = record
    for key in place[:-1]:
        parent = parent[key]
    key, value = place[-1], parent[place[-1]]
    how = pick(rng, ["nudged", "nudged", "junk", "another's", "gone"])
    if how == "nudged" and isinstance(value, bool):
        parent[key] = not value
    elif how == "nudged" and isinstance(value, int):
        parent[key] = value + pick(rng, [-1, 1, -value, value])
    elif how == "nudged" and isinstance(value, float):
        parent[key] = value * pick(rng, [-1.0, 0.0, 0.5, 2.0, 1 + 1e-9, 1 - 1e-3, 1e12])
    elif how == "nudged" and isinstance(value, str):
        parent[key] = pick(rng, [value[:-1], value.upper(), value + "x"])
    elif how == "another's":
        other: Any = record
        for step in pick(rng, known):
            other = other[step]
        parent[key] = json.loads(json.dumps(other))
    elif how == "gone":
        del parent[key]
    else:
        parent[key] = pick(rng, JUNK)
    return f"{'.'.join(map(str, place))} {how}"


def change_tensors(rng: np.random.Generator, tensors: dict[str, torch.Tensor]) -> str:
    """One tensor: a number in it, its shape, its type, its name; or one too many."""
    name = pick(rng, sorted(tensors))
    tensor = tensors[name].clone()
    how = pick(rng, ["nudged", "not finite", "shorter", "transposed", "typed", "gone", "renamed", "exchanged", "added"])
    if how in ("nudged", "not finite") and tensor.numel() > 0:
        at = int(rng.integers(tensor.numel()))
        if tensor.is_floating_point():
            flat, factor = tensor.view(-1), 1 + 10.0 ** rng.uniform(-9, 1)
            flat[at] = float(flat[at]) * factor + 1e-9 if how == "nudged" else pick(rng, NOT_FINITE)
        else:
            tensor.view(-1)[at] = pick(rng, [-1, 1, 7])
    elif how == "shorter":
        tensor = tensor[1:].clone() if tensor.ndim else tensor
    elif how == "transposed":
        tensor = tensor.mT.contiguous() if tensor.ndim >= 2 else tensor
    elif how == "typed":
        tensor = tensor.to(pick(rng, [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16]))
    elif how == "exchanged":
        tensor = tensors[pick(rng, sorted(tensors))].clone()
    tensors[name] = tensor
    if how in ("gone", "renamed"):
        del tensors[name]
    if how in ("renamed", "added"):
        tensors[pick(rng, ["bias", "dual", "scaling.mean", "other", "first ", "fitted.betas_", "whitening.map"])] = (
            tensor.clone()
        )
    return f"{name} {how}"


NOT_FINITE = [float("nan"), float("inf"), -float("inf"), 1e38]
