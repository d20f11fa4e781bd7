"""A user's arrays, checked; and which of them are set aside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def as_array(X: Any) -> NDArray[Any]:
    """(n, …), n ≥ 1, finite: bytes and float32 as they are, other numbers as float32."""
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if isinstance(X, Sequence) and not isinstance(X, str):
        shapes = {np.shape(sample) for sample in X}
        if len(shapes) > 1:
            some = " and ".join(map(str, sorted(shapes)[:2]))
            raise ValueError(f"X: samples have unequal shapes, such as {some}; bring them to one size first.")
    array = np.asarray(X)
    if array.dtype.kind not in "buif":
        raise ValueError(f"X: not an array of numbers (type {array.dtype}).")
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(
            f"X: a table (n, d), tokens (n, s, d) or images (n, channels, …) are needed, got {array.shape}."
        )
    if array.dtype not in (np.uint8, np.float32):
        array = array.astype(np.float32)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"X: {int((~np.isfinite(array)).sum())} entries are not finite in float32.")
    return array


def set_aside(
    n: int, fraction: float | None, classes: NDArray[Any] | None, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Rows to train on, and rows to judge stages by: of every class the same share.  None: all are trained on."""
    if fraction is None:
        return np.arange(n), None
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction: between 0 and 1, or None, got {fraction!r}.")
    order = np.random.default_rng((seed, 0)).permutation(n)
    if classes is not None:  # the k-th of its class, of those the first share
        rank = np.empty(n, dtype=np.int64)
        for label in np.unique(classes):
            mine = order[classes[order] == label]
            rank[mine] = np.arange(len(mine)) * n // max(len(mine), 1)
        order = order[np.argsort(rank[order], kind="stable")]
    count = round(fraction * n)
    if not 0 < count < n:
        raise ValueError(f"validation_fraction: {fraction:g} of {n} samples are {count}; take another, or None.")
    return np.sort(order[count:]), np.sort(order[:count])


def as_bytes(size: str | int) -> int:
    """ "16GB", "500 MiB", or a number of bytes."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"cache: a size such as '16GB' or a number of bytes is needed, got {size!r}.")
    return int(float(found[1]) * _UNITS[found[2].upper()])
