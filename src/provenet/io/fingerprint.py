"""What data a problem is about, in a few numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from provenet import ranks
from provenet.data.sharded import row_blocks
from provenet.io.schema import as_shape, take
from provenet.problem import Problem

_PART = 2**20


def fingerprint(problem: Problem) -> dict[str, Any]:
    """Shapes and SHA-256 digests of samples, targets, weights and mask: equal for equal numbers in equal order."""
    loss, mask, n = problem.loss, problem.mask, problem.program.operator.shards.n
    return {
        "samples": [n, *problem.X.shape[1:]],
        "targets": [n, *loss.target.shape[1:]],
        "samples_sha256": _digest_of_samples(problem.X),
        "targets_sha256": _digest_of_all(loss.target),
        "weights_sha256": _digest_of_all(loss.sample_weight),
        "mask_sha256": None if mask is None else _digest_of_all(mask.to(torch.uint8)),
    }


def _digest_of_all(rows: Tensor) -> str:
    """Of the rows of all processes, which pass by the first one."""
    group = ranks.current()
    if group is None:
        return digest(rows)
    return str(group.first_says(digest_of(group.collected(rows))))


def _digest_of_samples(X: Tensor) -> str:
    """Likewise; samples in shards are read some at a time."""
    return digest_of(row_blocks(X)) if ranks.current() is None else _digest_of_all(X)


def differences(saved: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """In what two fingerprints differ, in words."""
    if saved["samples"] != found["samples"]:
        return [
            f"the samples have shape {_shape(found['samples'])}, the model was fitted on {_shape(saved['samples'])}"
        ]
    if saved["targets"] != found["targets"]:
        return [
            f"the targets have shape {_shape(found['targets'])}, the model was fitted on {_shape(saved['targets'])}"
        ]
    names = {
        "samples": "the samples are",
        "targets": "the targets are",
        "weights": "the weights are",
        "mask": "the mask is",
    }
    return [
        f"{words} not {'that' if name == 'mask' else 'those'} of the fit"
        for name, words in names.items()
        if saved.get(f"{name}_sha256") != found.get(f"{name}_sha256")
    ]


def check_fingerprint(saved: dict[str, Any]) -> dict[str, Any]:
    """``saved`` itself, if it is a fingerprint."""
    for name in ("samples", "targets"):
        as_shape(f"data: {name}", take(saved, name, list))
    for name in ("samples_sha256", "targets_sha256", "weights_sha256"):
        take(saved, name, str)
    if saved.get("mask_sha256") is not None:  # models of blocks without masks may lack it
        take(saved, "mask_sha256", str)
    return saved


def digest(*tensors: Tensor) -> str:
    """SHA-256 of the numbers, in float64, some at a time."""
    return digest_of(tensors)


def digest_of(tensors: Iterable[Tensor]) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        for part in tensor.detach().cpu().flatten().split(_PART):
            numbers = part.to(torch.float64).numpy() + 0.0  # minus zero is zero
            total.update(np.ascontiguousarray(numbers, dtype="<f8").tobytes())
    return total.hexdigest()


def _shape(sizes: list[int]) -> str:
    return " × ".join(map(str, sizes))
